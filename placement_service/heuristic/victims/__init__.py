"""Room for gangs that wait: which running gangs give way, and where they go."""
