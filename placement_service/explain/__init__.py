"""Why a gang waits: a `Problem` and its final plan enter, reasons with numbers leave.

It changes no plan and knows neither messages nor the solver.
"""
