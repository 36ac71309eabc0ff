"""Plans carried out: bindings, those whose result is unclear, and what is noted on pods."""
