"""Snapshots that requests may name: their digests, the versions that a compute process reads
requests with, and the bytes that the edge keeps to tell a process what it lacks.

The edge keeps bytes and no more; a compute process keeps what it decoded. A process that dies
loses nothing: the next one is told anew.
"""
