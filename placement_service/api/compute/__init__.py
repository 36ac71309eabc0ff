"""Compute processes: a request is read and answered apart from the edge, and may be killed."""
