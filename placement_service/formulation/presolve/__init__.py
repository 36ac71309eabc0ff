"""Presolve: a smaller question with the same answers."""
