"""The cluster as the watches report it: its objects, and the state of the gangs among them."""
