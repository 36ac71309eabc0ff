"""The order of the stages: from the first answer to a proven one.

A `Problem` and a first `Solution` enter, better solutions and bounds leave. It decides which model
is solved next, and knows no variables of any model. A stage is a file, ``<name>_stage``, or a
folder with a ``stage`` in it; `engine` says in which order they come.
"""
