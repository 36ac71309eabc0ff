"""A file for each way to advise a scheduler, and what several of them share."""
