"""Parts of gangs that change places, so that gangs lie in fewer domains."""
