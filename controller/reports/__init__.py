"""What is told about gangs and pods: conditions, status, events, and what would let a gang in."""
