"""Names to arrays: a `Request` enters, a `Problem` leaves.

Node and pod classes, levels, scopes, the objective, and the rules that span nodes. It knows
neither messages nor any solver.
"""
