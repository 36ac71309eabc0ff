"""What the integers of a problem are indices of.

They cost nothing at run time, and a reader and the type checker can tell them apart.
"""

from __future__ import annotations

from typing import NewType

#: A node of the snapshot; ANY_NODE where none is named.
NodeIdx = NewType("NodeIdx", int)
#: A class of pods that no rule can tell apart: a row of `Problem.request`.
ClassIdx = NewType("ClassIdx", int)
#: A gang of the problem, in the order of the request; NO_GANG where there is none.
GangIdx = NewType("GangIdx", int)
#: A demand of a gang.
DemandIdx = NewType("DemandIdx", int)
#: A group of a gang, and a pod set of a group.
GroupIdx = NewType("GroupIdx", int)
PodSetIdx = NewType("PodSetIdx", int)
#: A level of the problem; NO_LEVEL where there is none.
LevelIdx = NewType("LevelIdx", int)
#: A domain of a level; NO_DOMAIN where there is none.
DomainIdx = NewType("DomainIdx", int)

ANY_NODE = NodeIdx(-1)
NO_GANG = GangIdx(-1)
NO_LEVEL = LevelIdx(-1)
NO_DOMAIN = DomainIdx(-1)
NO_CLASS = ClassIdx(-1)
