"""Answers of planning as messages."""

from __future__ import annotations

from placement.v1 import planning_pb2
from placement_service.entities.planning import (
    AddNodes,
    Bounded,
    Evict,
    Move,
    Reduce,
    Relax,
    Remedy,
    Uncordon,
)
from placement_service.planning.wording import sentence


def remedy_to_proto(remedy: Remedy) -> planning_pb2.Remedy:
    """A remedy with its sentence."""
    message = planning_pb2.Remedy(proven=remedy.proven, message=sentence(remedy))
    match remedy:
        case Evict():
            message.evict.gangs.extend(remedy.gangs)
            message.evict.pods.extend(remedy.pods)
        case Uncordon():
            message.uncordon.nodes.extend(remedy.nodes)
        case Relax():
            message.relax.CopyFrom(
                planning_pb2.RelaxRemedy(scope=remedy.scope, level=remedy.level, to=remedy.to)
            )
        case Reduce():
            message.reduce.CopyFrom(
                planning_pb2.ReduceRemedy(group=remedy.group, minimum=remedy.minimum, to=remedy.to)
            )
        case AddNodes():
            message.add_nodes.CopyFrom(
                planning_pb2.AddNodesRemedy(like=remedy.like, count=remedy.count)
            )
    return message


def amount_to_proto(amount: Bounded) -> planning_pb2.Amount:
    """A number with its bound."""
    return planning_pb2.Amount(value=amount.value, bound=amount.bound, impossible=amount.impossible)


def move_to_proto(move: Move) -> planning_pb2.Move:
    """One move."""
    return planning_pb2.Move(
        step=move.step,
        pod=move.pod,
        gang=move.gang,
        from_node=move.from_node,
        to_node=move.to_node,
    )
