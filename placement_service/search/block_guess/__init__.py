"""Blocks for all gangs of the target at once, before any model is asked."""
