"""One file for each rule that joins pods across nodes; `protocol` says what a rule is.

To add one: its file here, its entry in `FORMULATE`, and what it posts in `cp_sat.rules`.
"""

from __future__ import annotations

from placement_service.formulation.rules import (
    affinity,
    anti_affinity,
    host_ports,
    reservations,
    spread,
)

#: Makes rules from a request, in this order: spread is judged on the rules of nodes alone,
#: before other pods narrow them.
FORMULATE = (
    host_ports.formulate,
    spread.formulate,
    anti_affinity.formulate,
    affinity.formulate,
    reservations.formulate,
)
