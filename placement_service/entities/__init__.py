"""What goes from stage to stage: request, solution, placement, progress, errors.

Plain immutable values. They know neither messages, nor arrays, nor the solver.
"""
