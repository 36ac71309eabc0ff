"""What is asked of the placement service, and how: one answer for each cycle."""
