"""Workloads whose pods are yet to be made: Jobs, JobSets, LeaderWorkerSets and more."""
