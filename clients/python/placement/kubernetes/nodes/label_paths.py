"""Topologies whose domains are paths of labels, put into plain node labels.

To KAI and Koordinator "rack r1" of one zone and "rack r1" of another are two domains, and a
node that lacks the label of any level is outside. The service compares values of one label.
Where the values of a level are unique and complete, its own label says the same, and is used.
Otherwise nodes get a further label, whose values are the paths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"

#: The longest name, and value, that a label may have.
_LONGEST: Final = 63

#: Between labels of which the first that a node has counts. No label holds it.
EITHER: Final = "|"

Labels = Mapping[str, str]


class LabelPaths:
    """Labels of levels for the nodes of an input; `nodes` are the labels of each node."""

    def __init__(self, nodes: Sequence[Labels]) -> None:
        self.nodes = nodes
        self._keys: dict[tuple[str, ...], str] = {}
        self._added: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._told: dict[str, dict[str, str]] = {}

    def key(self, topology: str, levels: Sequence[str], level: str) -> str:
        """The node label whose values are the domains of a level.

        `levels` are the labels of the whole topology from broad to narrow, `level` one of
        them. Several labels for one level are joined by `EITHER`.
        """
        if (topology, *levels, level) not in self._keys:
            # Who requires a level may be offered those above it, and never a label by itself.
            for place, one in enumerate(levels):
                path = tuple(levels[: place + 1])
                key = one
                if not self._says_the_same(path, levels):
                    key = _made_key(topology, one)
                    self._added[key] = path, tuple(levels)
                self._keys[topology, *levels, one] = key
        return self._keys[topology, *levels, level]

    @property
    def own(self) -> dict[str, str]:
        """The label that each further one stands for."""
        return {made: path[-1].partition(EITHER)[0] for made, (path, _) in self._added.items()}

    def label(self, node: str, key: str, value: str) -> None:
        """Gives a node a label that comes from another object."""
        self._told.setdefault(node, {})[key] = value

    def added(self, node: str, labels: Labels) -> dict[str, str]:
        """The labels that a node gets beside its own."""
        result = dict(self._told.get(node, ()))
        for key, (path, levels) in self._added.items():
            if all(_value(labels, level) for level in levels):
                result[key] = _bounded(".".join(_value(labels, level) for level in path))
        return result

    def _says_the_same(self, path: tuple[str, ...], levels: Sequence[str]) -> bool:
        """Whether every value of the last label has one path, and only complete nodes have it."""
        if EITHER in path[-1]:
            return False
        paths: dict[str, tuple[str, ...]] = {}
        for labels in self.nodes:
            value = labels.get(path[-1])
            if value is None:
                continue
            if not all(_value(labels, level) for level in levels):
                return False
            whole = tuple(_value(labels, level) for level in path)
            if paths.setdefault(value, whole) != whole:
                return False
        return True


def _value(labels: Labels, level: str) -> str:
    return next((labels[key] for key in level.split(EITHER) if labels.get(key)), "")


def _made_key(topology: str, level: str) -> str:
    """A label that no node has, whose last part is the word for the level."""
    prefix, _, name = level.partition(EITHER)[0].rpartition("/")
    place = f"{_bounded(topology)}.path"
    return f"{place}.{prefix}/{name}" if prefix else f"{place}/{name}"


def _bounded(text: str) -> str:
    """The text in a form that a label may have; long ones end in a digest."""
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: _LONGEST - 17]}-{digest}"


def node_labels(body: Mapping[str, object], name: str) -> Labels:
    """The labels of a node as written; anything wrong with them is noted elsewhere."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    own = {
        key: value
        for key, value in (labels.items() if isinstance(labels, dict) else ())
        if isinstance(key, str) and isinstance(value, str)
    }
    return {HOSTNAME: name, **own}
