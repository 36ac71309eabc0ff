"""A call at the edge: its time, its best answer so far, progress, and the status it ends with."""
