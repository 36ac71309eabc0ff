"""Nodes, the GPUs inside them, and the paths of labels that they are in."""
