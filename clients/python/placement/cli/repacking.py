"""Moves that free domains: for people, for programs, and as Koordinator's migration jobs."""

from __future__ import annotations

from collections.abc import Iterable

from placement.cli.answer import Json, warnings_as_data
from placement.cli.options import Freeing
from placement.cli.words import count, namespaced, node_name
from placement.kubernetes import Problem
from placement.planning.repack import Repacking


def as_data(found: Repacking, warnings: Iterable[Problem]) -> Json:
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
    return {
        "moves": moves,
        "freed": list(found.freed),
        "pods": {"value": found.pods.value, "bound": found.pods.bound},
        "warnings": warnings_as_data(warnings),
    }


def as_text(asked: Freeing, found: Repacking) -> str:
    """`repack` for people."""
    if len(found.freed) < asked.number:
        wanted = count(asked.number, "domain")
        return f"No way was found to free {wanted} of {asked.level}.\n"
    lines = [
        f"step {move.step}: {'/'.join(namespaced(move.pod))}"
        f" {node_name(move.from_node)} -> {node_name(move.to_node)}"
        for move in found.moves
    ]
    proven = found.pods.bound == found.pods.value
    known = "fewer are not enough" if proven else f"at least {found.pods.bound} are needed"
    freed = ", ".join(found.freed)
    lines.append(f"free then: {freed}. {count(found.pods.value or 0, 'pod')} moved; {known}.")
    return "".join(f"{line}\n" for line in lines)


def as_jobs(found: Repacking) -> str:
    """A PodMigrationJob for each move; the label says in which step."""
    from placement.cli.documents import yaml_documents

    jobs = []
    for move in found.moves:
        namespace, pod = namespaced(move.pod)
        jobs.append(
            {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "PodMigrationJob",
                "metadata": {
                    "name": f"repack-{move.step}-{pod}"[:253],
                    "labels": {"placement/step": str(move.step)},
                },
                "spec": {
                    "mode": "ReservationFirst",
                    "podRef": {"namespace": namespace, "name": pod},
                    "reservationOptions": {
                        "template": {
                            "spec": {"template": {"spec": {"nodeName": node_name(move.to_node)}}}
                        }
                    },
                },
            }
        )
    return yaml_documents(jobs)
