"""Models of some blocks at a time, whose racks are filled with whole gangs."""
