"""What a command reads: objects, policies, saved requests and answers, a live cluster."""
