"""The victim model: which running gangs give way, and where waiting gangs go."""
