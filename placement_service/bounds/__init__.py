"""Valid inequalities by counting: a `Problem` enters, rows that every valid plan meets leave.

It knows no plan and no solver.
"""
