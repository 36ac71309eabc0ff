"""Gangs that are no PodGang, and those whose pods are still gated."""
