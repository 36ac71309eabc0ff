"""Remedies in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from placement_service.entities.planning import AddNodes, Evict, Reduce, Relax, Remedy, Uncordon

#: Most names of one kind in a sentence.
_MOST_NAMES = 8


def sentence(remedy: Remedy) -> str:
    """What to do, and whether it is the least."""
    known = "proven to be the least" if remedy.proven else "perhaps not the least"
    return f"{action(remedy)} ({known})"


def action(remedy: Remedy) -> str:
    """What to do."""
    match remedy:
        case Evict():
            names = _names([_short(name) for name in remedy.gangs])
            return f"evict {_count(len(remedy.pods), 'pod')} of {names}"
        case Uncordon():
            return f"open {_names([name.removeprefix('nodes/') for name in remedy.nodes])}"
        case Relax():
            instead = f"require only {remedy.to}" if remedy.to else "require no single domain"
            return f"{remedy.scope or 'gang'}: {instead} instead of {remedy.level}"
        case Reduce():
            of = _count(remedy.minimum, "pod")
            return f"{remedy.group}: run only {remedy.to} of {of}"
        case AddNodes():
            like = remedy.like.removeprefix("nodes/")
            return f"add {_count(remedy.count, 'node')} like {like}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _short(name: str) -> str:
    """``namespace/name`` of ``namespaces/{namespace}/podgangs/{podgang}``."""
    parts = name.split("/")
    return f"{parts[1]}/{parts[3]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
