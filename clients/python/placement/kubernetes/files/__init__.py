"""Files, folders and archives as objects."""
