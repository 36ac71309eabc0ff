"""Every model that OR-tools sees: admission master, aggregate model, exact model, packings.

A `Problem` and rows enter, plans and proven bounds leave. The only folder with OR-tools; it
does not know in which order the models are asked.
"""

from placement_service.cp_sat.lean_import import import_cp_sat

import_cp_sat()
