"""The placement service: from a snapshot of the cluster to a proven placement."""
