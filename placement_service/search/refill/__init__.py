"""Fewer domains where many pods share nodes: gangs fill domain after domain, all together."""
