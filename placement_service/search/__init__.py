"""The order of things: from the first answer to a proven one.

A `Problem` and a first `Solution` enter, better solutions and bounds leave. It decides which
model is asked next, and knows no variable of any of them.
"""
