"""How large the parts of models may become, in one value that is passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelParameters:
    """The defaults were measured on the families of `bench`."""

    #: Patterns of the admission master, in all: more are not worth their columns.
    master_patterns: int = 3000

    #: Beyond so many maximal patterns a node is described by its resources.
    node_patterns: int = 60
    #: From so many nodes that are alike on, more patterns are worth their variables.
    many_alike: int = 16
    #: For those: the patterns for each node, and the most in all.
    patterns_per_node: int = 20
    most_node_patterns: int = 1000
    #: Steps of the enumeration for each pattern wanted, after which it gives up.
    steps_per_pattern: int = 66

    #: Up to so many parts of which no domain holds two are distinguished.
    large_parts: int = 60

    #: Variables of the exact model for homes of pods that may move, up to which each node is
    #: looked at alone.
    told_apart: int = 6_000

    #: Variables of the victim model for places of units that move and that nobody waiting asks for.
    moved_units: int = 12_000

    #: How close prices of configurations stay to the best so far, so that column generation
    #: oscillates less.
    stabilisation: float = 0.5


MODEL_DEFAULTS = ModelParameters()
