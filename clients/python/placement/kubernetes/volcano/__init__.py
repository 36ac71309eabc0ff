"""Volcano: Jobs, PodGroups, HyperNodes and Queues."""
