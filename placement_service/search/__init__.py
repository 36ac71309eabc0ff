"""The order of the stages: from the first answer to a proven one.

A `Problem` and a first `Solution` enter, better solutions and bounds leave. It decides which model
is solved next, and knows no variables of any model.
"""
