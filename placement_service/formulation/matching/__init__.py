"""What labels match: nodes that a pod may use, and pods that a rule looks at."""
