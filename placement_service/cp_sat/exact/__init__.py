"""The exact model: some gangs on some nodes, with every rule."""
