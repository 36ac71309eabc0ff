"""Grove: PodGangs, and the PodCliqueSets that they are made of."""
