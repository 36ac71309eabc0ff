"""What pods ask for, and which of them run, wait or may give way."""
