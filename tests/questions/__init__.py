"""Many random questions with all rules at once, each answered by the engine and by the oracle."""
