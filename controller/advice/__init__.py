"""Advice for schedulers that stay in charge: where a whole gang should go.

What comes in are the objects of the cluster, as the watches report them; what goes out is
what one adapter of `schedulers` writes for its scheduler. Rules that hold for all of them are in
`lifecycle`. Nothing here binds a pod.
"""
