"""Kueue: Workloads, and the queues, flavors and checks that they pass."""
