"""Gangs on their way from names to indices, and the scopes of their packing."""
