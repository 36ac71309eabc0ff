"""Questions about a cluster that could be different, answered with proof.

Each question changes the snapshot (`changes`), counts what that means (`bounds`), tries it with
the first answer's means, and only where neither decides asks the solver.
"""
