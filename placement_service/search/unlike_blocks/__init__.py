"""Whole gangs for one block of unlike racks after another, where some goals may be spent for it."""
