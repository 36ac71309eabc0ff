"""The answer as plain immutable values: which pod goes where, how good that is, and why gangs wait.

This module only names things; `pipeline` makes them and `wire` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding
from placement_service.entities.solution import Limit, Tier


class ReasonCode(Enum):
    """The kind of a reason; `placement.v1.ReasonCode` says what each means."""

    UNINITIALIZED = "UNINITIALIZED"
    PODS_MISSING = "PODS_MISSING"
    UNSUPPORTED = "UNSUPPORTED"
    BASE_NOT_PLACED = "BASE_NOT_PLACED"
    NO_ELIGIBLE_NODE = "NO_ELIGIBLE_NODE"
    INSUFFICIENT_RESOURCES = "INSUFFICIENT_RESOURCES"
    NO_SUCH_LEVEL = "NO_SUCH_LEVEL"
    REQUIRED_DOMAIN_TOO_SMALL = "REQUIRED_DOMAIN_TOO_SMALL"
    PINNED_DOMAIN_TOO_SMALL = "PINNED_DOMAIN_TOO_SMALL"
    REQUIRED_DOMAIN_BROKEN = "REQUIRED_DOMAIN_BROKEN"
    POD_RULES = "POD_RULES"
    OUTCOMPETED = "OUTCOMPETED"
    NO_COMBINATION = "NO_COMBINATION"
    NOT_SEARCHED = "NOT_SEARCHED"
    QUEUE_UNKNOWN = "QUEUE_UNKNOWN"
    QUEUE_LIMIT = "QUEUE_LIMIT"
    QUEUE_GUARANTEED = "QUEUE_GUARANTEED"
    RESERVED = "RESERVED"
    DEVICES = "DEVICES"
    CLAIM = "CLAIM"


class ReasonState(Enum):
    """The state of the cluster that a reason was measured on."""

    ANY = "UNSPECIFIED"
    AFTER_PLAN = "AFTER_PLAN"
    EMPTY_QUEUE = "EMPTY_QUEUE"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a gang, or some of its pods, wait; `asked` and `found` are in pods.

    `subject` is the name of what binds: a queue, a reservation, a claim, a budget, a resource.
    """

    code: ReasonCode
    message: str
    level: str = ""
    domain: str = ""
    asked: int = 0
    found: int = 0
    state: ReasonState = ReasonState.ANY
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ScopeUse:
    """The domains that one packing scope uses at one level, sorted.

    The empty domain stands for nodes without the label.
    """

    name: str
    level: str
    required: bool
    domains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GangResult:
    """What became of one gang. `placement_score` None: not placed or unknown."""

    name: str
    placed: bool
    placement_score: float | None = None
    reasons: tuple[Reason, ...] = ()
    scopes: tuple[ScopeUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Termination:
    """`optimal`: all tiers before `fragmentation` are proven; else `limit` ended the search.

    `gap` is that of the first tier that is not proven, None when unknown.
    """

    optimal: bool
    limit: Limit = Limit.NONE
    gap: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Stats:
    """How long the computation took; times in seconds since the request arrived.

    `proof_seconds` is None when one of these tiers is not proven.
    """

    elapsed_seconds: float = 0.0
    first_answer_seconds: float = 0.0
    proof_seconds: float | None = None
    first_tiers: tuple[Tier, ...] = ()
    engine: str = ""
    deterministic: bool = False
    solver_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """The whole answer; `gangs` are in the order of the request.

    `termination` is None in the empty answer to a request that is only checked.
    """

    revision: str = ""
    label: str = ""
    bindings: tuple[Binding, ...] = ()
    gangs: tuple[GangResult, ...] = ()
    tiers: tuple[Tier, ...] = ()
    termination: Termination | None = None
    stats: Stats | None = None
    evictions: tuple[Eviction, ...] = ()
    request_digest: str = ""
    snapshot_digest: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known so far, `elapsed_seconds` after the request arrived."""

    elapsed_seconds: float
    phase: str
    tiers: tuple[Tier, ...]
    placed_gang_count: int
