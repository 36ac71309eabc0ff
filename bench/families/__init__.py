"""Families of instances, a file for each kind of cluster that they are about."""
