import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReasonCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_CODE_UNSPECIFIED: _ClassVar[ReasonCode]
    REASON_CODE_UNINITIALIZED: _ClassVar[ReasonCode]
    REASON_CODE_PODS_MISSING: _ClassVar[ReasonCode]
    REASON_CODE_UNSUPPORTED: _ClassVar[ReasonCode]
    REASON_CODE_BASE_NOT_PLACED: _ClassVar[ReasonCode]
    REASON_CODE_NO_ELIGIBLE_NODE: _ClassVar[ReasonCode]
    REASON_CODE_INSUFFICIENT_RESOURCES: _ClassVar[ReasonCode]
    REASON_CODE_NO_SUCH_LEVEL: _ClassVar[ReasonCode]
    REASON_CODE_REQUIRED_DOMAIN_TOO_SMALL: _ClassVar[ReasonCode]
    REASON_CODE_PINNED_DOMAIN_TOO_SMALL: _ClassVar[ReasonCode]
    REASON_CODE_REQUIRED_DOMAIN_BROKEN: _ClassVar[ReasonCode]
    REASON_CODE_POD_RULES: _ClassVar[ReasonCode]
    REASON_CODE_OUTCOMPETED: _ClassVar[ReasonCode]
    REASON_CODE_NO_COMBINATION: _ClassVar[ReasonCode]
    REASON_CODE_NOT_SEARCHED: _ClassVar[ReasonCode]
    REASON_CODE_QUEUE_UNKNOWN: _ClassVar[ReasonCode]
    REASON_CODE_QUEUE_LIMIT: _ClassVar[ReasonCode]
    REASON_CODE_QUEUE_GUARANTEED: _ClassVar[ReasonCode]
    REASON_CODE_RESERVED: _ClassVar[ReasonCode]
    REASON_CODE_DEVICES: _ClassVar[ReasonCode]
    REASON_CODE_CLAIM: _ClassVar[ReasonCode]

class EvictionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVICTION_KIND_UNSPECIFIED: _ClassVar[EvictionKind]
    EVICTION_KIND_PREEMPT: _ClassVar[EvictionKind]
    EVICTION_KIND_RECLAIM: _ClassVar[EvictionKind]
    EVICTION_KIND_MOVE: _ClassVar[EvictionKind]

class ReasonState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_STATE_UNSPECIFIED: _ClassVar[ReasonState]
    REASON_STATE_AFTER_PLAN: _ClassVar[ReasonState]
    REASON_STATE_EMPTY_QUEUE: _ClassVar[ReasonState]

class TerminationReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TERMINATION_REASON_UNSPECIFIED: _ClassVar[TerminationReason]
    TERMINATION_REASON_OPTIMAL: _ClassVar[TerminationReason]
    TERMINATION_REASON_FEASIBLE: _ClassVar[TerminationReason]

class TerminationLimit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TERMINATION_LIMIT_UNSPECIFIED: _ClassVar[TerminationLimit]
    TERMINATION_LIMIT_TIME: _ClassVar[TerminationLimit]
    TERMINATION_LIMIT_EFFORT: _ClassVar[TerminationLimit]
    TERMINATION_LIMIT_SOLVER_LOST: _ClassVar[TerminationLimit]
REASON_CODE_UNSPECIFIED: ReasonCode
REASON_CODE_UNINITIALIZED: ReasonCode
REASON_CODE_PODS_MISSING: ReasonCode
REASON_CODE_UNSUPPORTED: ReasonCode
REASON_CODE_BASE_NOT_PLACED: ReasonCode
REASON_CODE_NO_ELIGIBLE_NODE: ReasonCode
REASON_CODE_INSUFFICIENT_RESOURCES: ReasonCode
REASON_CODE_NO_SUCH_LEVEL: ReasonCode
REASON_CODE_REQUIRED_DOMAIN_TOO_SMALL: ReasonCode
REASON_CODE_PINNED_DOMAIN_TOO_SMALL: ReasonCode
REASON_CODE_REQUIRED_DOMAIN_BROKEN: ReasonCode
REASON_CODE_POD_RULES: ReasonCode
REASON_CODE_OUTCOMPETED: ReasonCode
REASON_CODE_NO_COMBINATION: ReasonCode
REASON_CODE_NOT_SEARCHED: ReasonCode
REASON_CODE_QUEUE_UNKNOWN: ReasonCode
REASON_CODE_QUEUE_LIMIT: ReasonCode
REASON_CODE_QUEUE_GUARANTEED: ReasonCode
REASON_CODE_RESERVED: ReasonCode
REASON_CODE_DEVICES: ReasonCode
REASON_CODE_CLAIM: ReasonCode
EVICTION_KIND_UNSPECIFIED: EvictionKind
EVICTION_KIND_PREEMPT: EvictionKind
EVICTION_KIND_RECLAIM: EvictionKind
EVICTION_KIND_MOVE: EvictionKind
REASON_STATE_UNSPECIFIED: ReasonState
REASON_STATE_AFTER_PLAN: ReasonState
REASON_STATE_EMPTY_QUEUE: ReasonState
TERMINATION_REASON_UNSPECIFIED: TerminationReason
TERMINATION_REASON_OPTIMAL: TerminationReason
TERMINATION_REASON_FEASIBLE: TerminationReason
TERMINATION_LIMIT_UNSPECIFIED: TerminationLimit
TERMINATION_LIMIT_TIME: TerminationLimit
TERMINATION_LIMIT_EFFORT: TerminationLimit
TERMINATION_LIMIT_SOLVER_LOST: TerminationLimit

class Placement(_message.Message):
    __slots__ = ("revision", "label", "bindings", "gangs", "tiers", "termination", "stats", "evictions", "request_digest", "snapshot_digest")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    GANGS_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    EVICTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    revision: str
    label: str
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    gangs: _containers.RepeatedCompositeFieldContainer[GangResult]
    tiers: _containers.RepeatedCompositeFieldContainer[ObjectiveTier]
    termination: Termination
    stats: SolveStats
    evictions: _containers.RepeatedCompositeFieldContainer[Eviction]
    request_digest: str
    snapshot_digest: str
    def __init__(self, revision: _Optional[str] = ..., label: _Optional[str] = ..., bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ..., gangs: _Optional[_Iterable[_Union[GangResult, _Mapping]]] = ..., tiers: _Optional[_Iterable[_Union[ObjectiveTier, _Mapping]]] = ..., termination: _Optional[_Union[Termination, _Mapping]] = ..., stats: _Optional[_Union[SolveStats, _Mapping]] = ..., evictions: _Optional[_Iterable[_Union[Eviction, _Mapping]]] = ..., request_digest: _Optional[str] = ..., snapshot_digest: _Optional[str] = ...) -> None: ...

class Eviction(_message.Message):
    __slots__ = ("pod", "gang", "node", "kind", "for_gang", "to_node", "reason", "to_devices")
    POD_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FOR_GANG_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TO_DEVICES_FIELD_NUMBER: _ClassVar[int]
    pod: str
    gang: str
    node: str
    kind: EvictionKind
    for_gang: str
    to_node: str
    reason: str
    to_devices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, pod: _Optional[str] = ..., gang: _Optional[str] = ..., node: _Optional[str] = ..., kind: _Optional[_Union[EvictionKind, str]] = ..., for_gang: _Optional[str] = ..., to_node: _Optional[str] = ..., reason: _Optional[str] = ..., to_devices: _Optional[_Iterable[int]] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("pod", "uid", "node", "gang", "group", "devices", "reservation")
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    pod: str
    uid: str
    node: str
    gang: str
    group: str
    devices: _containers.RepeatedScalarFieldContainer[int]
    reservation: str
    def __init__(self, pod: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., gang: _Optional[str] = ..., group: _Optional[str] = ..., devices: _Optional[_Iterable[int]] = ..., reservation: _Optional[str] = ...) -> None: ...

class GangResult(_message.Message):
    __slots__ = ("name", "placed", "placement_score", "reasons", "scopes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_SCORE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    name: str
    placed: bool
    placement_score: float
    reasons: _containers.RepeatedCompositeFieldContainer[Reason]
    scopes: _containers.RepeatedCompositeFieldContainer[ScopeUse]
    def __init__(self, name: _Optional[str] = ..., placed: _Optional[bool] = ..., placement_score: _Optional[float] = ..., reasons: _Optional[_Iterable[_Union[Reason, _Mapping]]] = ..., scopes: _Optional[_Iterable[_Union[ScopeUse, _Mapping]]] = ...) -> None: ...

class ScopeUse(_message.Message):
    __slots__ = ("name", "level", "required", "domains")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    name: str
    level: str
    required: bool
    domains: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., level: _Optional[str] = ..., required: _Optional[bool] = ..., domains: _Optional[_Iterable[str]] = ...) -> None: ...

class Reason(_message.Message):
    __slots__ = ("code", "message", "level", "domain", "asked", "found", "state", "subject")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    code: ReasonCode
    message: str
    level: str
    domain: str
    asked: int
    found: int
    state: ReasonState
    subject: str
    def __init__(self, code: _Optional[_Union[ReasonCode, str]] = ..., message: _Optional[str] = ..., level: _Optional[str] = ..., domain: _Optional[str] = ..., asked: _Optional[int] = ..., found: _Optional[int] = ..., state: _Optional[_Union[ReasonState, str]] = ..., subject: _Optional[str] = ...) -> None: ...

class ObjectiveTier(_message.Message):
    __slots__ = ("name", "value", "bound", "minimize")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    MINIMIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    bound: float
    minimize: bool
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ..., bound: _Optional[float] = ..., minimize: _Optional[bool] = ...) -> None: ...

class Termination(_message.Message):
    __slots__ = ("reason", "limit", "gap", "detail")
    REASON_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    reason: TerminationReason
    limit: TerminationLimit
    gap: float
    detail: str
    def __init__(self, reason: _Optional[_Union[TerminationReason, str]] = ..., limit: _Optional[_Union[TerminationLimit, str]] = ..., gap: _Optional[float] = ..., detail: _Optional[str] = ...) -> None: ...

class SolveStats(_message.Message):
    __slots__ = ("elapsed", "first_answer", "proof", "first_tiers", "engine", "deterministic", "solver_memory_bytes")
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    FIRST_ANSWER_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIERS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    SOLVER_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    elapsed: _duration_pb2.Duration
    first_answer: _duration_pb2.Duration
    proof: _duration_pb2.Duration
    first_tiers: _containers.RepeatedCompositeFieldContainer[ObjectiveTier]
    engine: str
    deterministic: bool
    solver_memory_bytes: int
    def __init__(self, elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_answer: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., proof: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_tiers: _Optional[_Iterable[_Union[ObjectiveTier, _Mapping]]] = ..., engine: _Optional[str] = ..., deterministic: _Optional[bool] = ..., solver_memory_bytes: _Optional[int] = ...) -> None: ...
