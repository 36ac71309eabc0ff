"""Running pods that give way: the plans for it, step by step, and their journal."""
