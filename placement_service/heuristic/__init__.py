"""The first answer: a `Problem` enters, a complete valid plan leaves within milliseconds.

Greedy placement on residual capacities. It knows neither bounds nor the solver.
"""
