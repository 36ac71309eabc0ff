"""Models of planning questions: what fits beyond what waits, and what must leave for it."""
