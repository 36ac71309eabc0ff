"""The optimum of tiny instances, by trying every plan.

The oracle that the engine's proofs are held against. It shares nothing with the
engine: the judge says which complete plans are allowed and what they are worth. Plans are left
out before that for plain reasons only: a gang below its minimum, a node that the snapshot or the
template closes to a pod, a resource that is used up even if all who may go do, devices that no
node has together, a gang that is left with a part of its minimum, a rule that only more pods can
break and that is broken already, and partial plans that could not beat the best plan found so far
even if every gang that is left got its best at no cost to the others.

Good for about four nodes and six pending pods; the effort is that of all ways
to spread the pods over the nodes. The fragmentation tier is not optimised: the
service claims no bound for it.
"""

from __future__ import annotations

from tests.brute.claims import no_bound_cuts_off
from tests.brute.options import TooLarge, gang_plans, rank
from tests.brute.search import Optimum, fewest_domains, optimum

__all__ = [
    "Optimum",
    "TooLarge",
    "fewest_domains",
    "gang_plans",
    "no_bound_cuts_off",
    "optimum",
    "rank",
]
