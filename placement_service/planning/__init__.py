"""Questions about a cluster that could be different, answered with proof.

Each question changes the snapshot (`changes`), counts what that means (`bounds`), and tries it as a
first answer does. It asks the solver only where neither decides.
"""
