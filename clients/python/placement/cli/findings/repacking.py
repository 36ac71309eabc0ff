"""Moves that free domains, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable

from placement.cli.options.option_values import Freeing
from placement.cli.plan.answer import Json, warnings_as_data
from placement.cli.words import count, namespaced, node_name, printable
from placement.kubernetes import Problem
from placement.v1 import ComputeRepackingResponse


def as_data(found: ComputeRepackingResponse, warnings: Iterable[Problem]) -> Json:
    """`repack` for programs."""
    moves = []
    for move in found.moves:
        namespace, pod = namespaced(move.pod)
        moves.append(
            {
                "step": move.step,
                "namespace": namespace,
                "pod": pod,
                "podGang": namespaced(move.gang)[1],
                "from": node_name(move.from_node),
                "to": node_name(move.to_node),
            }
        )
    value = found.pods.value if found.pods.HasField("value") else None
    told: Json = {}
    if found.pods.impossible:
        # Nothing moves.
        value, told = 0, {"impossible": True}
    return {
        "moves": moves,
        "freed": list(found.freed),
        "pods": {
            "value": value,
            "bound": found.pods.bound if found.pods.HasField("bound") else None,
        },
        **told,
        "warnings": warnings_as_data(warnings),
    }


def as_text(asked: Freeing, found: ComputeRepackingResponse) -> str:
    """`repack` for people."""
    if len(found.freed) < asked.number:
        wanted = count(asked.number, "domain")
        if found.pods.impossible:
            moves = "moves of whole gangs or of extras"
            return f"No {moves} free {wanted} of {asked.level}; this is proven.\n"
        least = (
            f"; at least {count(found.pods.bound, 'pod')} would move" if found.pods.bound else ""
        )
        return f"No way was found to free {wanted} of {asked.level}{least}.\n"
    lines = [
        f"step {move.step}: {'/'.join(namespaced(move.pod))}"
        f" {node_name(move.from_node)} -> {node_name(move.to_node)}"
        for move in found.moves
    ]
    freed = ", ".join(found.freed)
    if not found.moves:
        return printable(f"free already: {freed}. Nothing moves.") + "\n"
    proven = found.pods.bound == found.pods.value
    known = "fewer are not enough" if proven else f"at least {found.pods.bound} are needed"
    lines.append(f"free then: {freed}. {count(found.pods.value or 0, 'pod')} moved; {known}.")
    return "".join(f"{printable(line)}\n" for line in lines)


def as_names(found: ComputeRepackingResponse) -> str:
    """The pods that move, one per line."""
    return "".join(f"{'/'.join(namespaced(move.pod))}\n" for move in found.moves)
