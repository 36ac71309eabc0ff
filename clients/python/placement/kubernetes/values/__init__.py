"""What stands in a field: amounts, times, selectors, each with the place where it was read."""
