"""Blocks filled with whole gangs, one after another, and then a few at a time anew."""
