"""Configurations: what a domain holds together, as columns of linear programs."""
