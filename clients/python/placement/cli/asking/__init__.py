"""The way to an answer: a server or the service in this process, with progress; whole traces."""
