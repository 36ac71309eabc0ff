import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from placement.v1 import placement_pb2 as _placement_pb2
from placement.v1 import placement_service_pb2 as _placement_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SteerPlacementRequest(_message.Message):
    __slots__ = ("request", "finish")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    request: _placement_service_pb2.ComputePlacementRequest
    finish: Finish
    def __init__(self, request: _Optional[_Union[_placement_service_pb2.ComputePlacementRequest, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SteerPlacementResponse(_message.Message):
    __slots__ = ("progress", "placement")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    progress: _placement_service_pb2.Progress
    placement: _placement_pb2.Placement
    def __init__(self, progress: _Optional[_Union[_placement_service_pb2.Progress, _Mapping]] = ..., placement: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ...) -> None: ...

class SteerPlanningRequest(_message.Message):
    __slots__ = ("explain_gang", "compute_capacity", "compute_repacking", "finish")
    EXPLAIN_GANG_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_REPACKING_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    explain_gang: ExplainGangRequest
    compute_capacity: ComputeCapacityRequest
    compute_repacking: ComputeRepackingRequest
    finish: Finish
    def __init__(self, explain_gang: _Optional[_Union[ExplainGangRequest, _Mapping]] = ..., compute_capacity: _Optional[_Union[ComputeCapacityRequest, _Mapping]] = ..., compute_repacking: _Optional[_Union[ComputeRepackingRequest, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ...) -> None: ...

class SteerPlanningResponse(_message.Message):
    __slots__ = ("explain_gang", "compute_capacity", "compute_repacking", "progress")
    EXPLAIN_GANG_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_REPACKING_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    explain_gang: ExplainGangResponse
    compute_capacity: ComputeCapacityResponse
    compute_repacking: ComputeRepackingResponse
    progress: _placement_service_pb2.Progress
    def __init__(self, explain_gang: _Optional[_Union[ExplainGangResponse, _Mapping]] = ..., compute_capacity: _Optional[_Union[ComputeCapacityResponse, _Mapping]] = ..., compute_repacking: _Optional[_Union[ComputeRepackingResponse, _Mapping]] = ..., progress: _Optional[_Union[_placement_service_pb2.Progress, _Mapping]] = ...) -> None: ...

class ExplainGangRequest(_message.Message):
    __slots__ = ("question", "gang", "levels", "plan", "time_limit", "label")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    question: _placement_service_pb2.ComputePlacementRequest
    gang: str
    levels: _containers.RepeatedScalarFieldContainer[str]
    plan: _placement_pb2.Placement
    time_limit: _duration_pb2.Duration
    label: str
    def __init__(self, question: _Optional[_Union[_placement_service_pb2.ComputePlacementRequest, _Mapping]] = ..., gang: _Optional[str] = ..., levels: _Optional[_Iterable[str]] = ..., plan: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., label: _Optional[str] = ...) -> None: ...

class ExplainGangResponse(_message.Message):
    __slots__ = ("placement", "remedies", "elapsed", "request_digest", "snapshot_digest")
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    REMEDIES_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    placement: _placement_pb2.Placement
    remedies: _containers.RepeatedCompositeFieldContainer[Remedy]
    elapsed: _duration_pb2.Duration
    request_digest: str
    snapshot_digest: str
    def __init__(self, placement: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ..., remedies: _Optional[_Iterable[_Union[Remedy, _Mapping]]] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_digest: _Optional[str] = ..., snapshot_digest: _Optional[str] = ...) -> None: ...

class Remedy(_message.Message):
    __slots__ = ("evict", "uncordon", "relax", "reduce", "add_nodes", "proven", "message")
    EVICT_FIELD_NUMBER: _ClassVar[int]
    UNCORDON_FIELD_NUMBER: _ClassVar[int]
    RELAX_FIELD_NUMBER: _ClassVar[int]
    REDUCE_FIELD_NUMBER: _ClassVar[int]
    ADD_NODES_FIELD_NUMBER: _ClassVar[int]
    PROVEN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    evict: EvictRemedy
    uncordon: UncordonRemedy
    relax: RelaxRemedy
    reduce: ReduceRemedy
    add_nodes: AddNodesRemedy
    proven: bool
    message: str
    def __init__(self, evict: _Optional[_Union[EvictRemedy, _Mapping]] = ..., uncordon: _Optional[_Union[UncordonRemedy, _Mapping]] = ..., relax: _Optional[_Union[RelaxRemedy, _Mapping]] = ..., reduce: _Optional[_Union[ReduceRemedy, _Mapping]] = ..., add_nodes: _Optional[_Union[AddNodesRemedy, _Mapping]] = ..., proven: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class EvictRemedy(_message.Message):
    __slots__ = ("gangs", "pods")
    GANGS_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    gangs: _containers.RepeatedScalarFieldContainer[str]
    pods: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gangs: _Optional[_Iterable[str]] = ..., pods: _Optional[_Iterable[str]] = ...) -> None: ...

class UncordonRemedy(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class RelaxRemedy(_message.Message):
    __slots__ = ("scope", "level", "to")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    scope: str
    level: str
    to: str
    def __init__(self, scope: _Optional[str] = ..., level: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class ReduceRemedy(_message.Message):
    __slots__ = ("group", "minimum", "to")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    group: str
    minimum: int
    to: int
    def __init__(self, group: _Optional[str] = ..., minimum: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class AddNodesRemedy(_message.Message):
    __slots__ = ("like", "count")
    LIKE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    like: str
    count: int
    def __init__(self, like: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ComputeCapacityRequest(_message.Message):
    __slots__ = ("question", "copies", "domains", "frontier", "levels", "time_limit", "label")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    question: _placement_service_pb2.ComputePlacementRequest
    copies: CopiesOfGang
    domains: FurtherDomains
    frontier: Frontier
    levels: _containers.RepeatedScalarFieldContainer[str]
    time_limit: _duration_pb2.Duration
    label: str
    def __init__(self, question: _Optional[_Union[_placement_service_pb2.ComputePlacementRequest, _Mapping]] = ..., copies: _Optional[_Union[CopiesOfGang, _Mapping]] = ..., domains: _Optional[_Union[FurtherDomains, _Mapping]] = ..., frontier: _Optional[_Union[Frontier, _Mapping]] = ..., levels: _Optional[_Iterable[str]] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., label: _Optional[str] = ...) -> None: ...

class CopiesOfGang(_message.Message):
    __slots__ = ("gang",)
    GANG_FIELD_NUMBER: _ClassVar[int]
    gang: str
    def __init__(self, gang: _Optional[str] = ...) -> None: ...

class FurtherDomains(_message.Message):
    __slots__ = ("level", "like")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LIKE_FIELD_NUMBER: _ClassVar[int]
    level: str
    like: str
    def __init__(self, level: _Optional[str] = ..., like: _Optional[str] = ...) -> None: ...

class Frontier(_message.Message):
    __slots__ = ("domains", "gangs", "most")
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    GANGS_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    domains: FurtherDomains
    gangs: _containers.RepeatedScalarFieldContainer[str]
    most: int
    def __init__(self, domains: _Optional[_Union[FurtherDomains, _Mapping]] = ..., gangs: _Optional[_Iterable[str]] = ..., most: _Optional[int] = ...) -> None: ...

class ComputeCapacityResponse(_message.Message):
    __slots__ = ("placement", "amount", "domains", "rows", "elapsed", "request_digest", "snapshot_digest")
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    placement: _placement_pb2.Placement
    amount: Amount
    domains: FurtherDomains
    rows: _containers.RepeatedCompositeFieldContainer[FrontierRow]
    elapsed: _duration_pb2.Duration
    request_digest: str
    snapshot_digest: str
    def __init__(self, placement: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ..., amount: _Optional[_Union[Amount, _Mapping]] = ..., domains: _Optional[_Union[FurtherDomains, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[FrontierRow, _Mapping]]] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_digest: _Optional[str] = ..., snapshot_digest: _Optional[str] = ...) -> None: ...

class Amount(_message.Message):
    __slots__ = ("value", "bound", "impossible")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    IMPOSSIBLE_FIELD_NUMBER: _ClassVar[int]
    value: int
    bound: int
    impossible: bool
    def __init__(self, value: _Optional[int] = ..., bound: _Optional[int] = ..., impossible: _Optional[bool] = ...) -> None: ...

class FrontierRow(_message.Message):
    __slots__ = ("domains", "copies")
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    domains: int
    copies: _containers.RepeatedCompositeFieldContainer[Amount]
    def __init__(self, domains: _Optional[int] = ..., copies: _Optional[_Iterable[_Union[Amount, _Mapping]]] = ...) -> None: ...

class ComputeRepackingRequest(_message.Message):
    __slots__ = ("question", "level", "count", "time_limit", "label")
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    question: _placement_service_pb2.ComputePlacementRequest
    level: str
    count: int
    time_limit: _duration_pb2.Duration
    label: str
    def __init__(self, question: _Optional[_Union[_placement_service_pb2.ComputePlacementRequest, _Mapping]] = ..., level: _Optional[str] = ..., count: _Optional[int] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., label: _Optional[str] = ...) -> None: ...

class ComputeRepackingResponse(_message.Message):
    __slots__ = ("moves", "freed", "pods", "elapsed", "request_digest", "snapshot_digest")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    freed: _containers.RepeatedScalarFieldContainer[str]
    pods: Amount
    elapsed: _duration_pb2.Duration
    request_digest: str
    snapshot_digest: str
    def __init__(self, moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., freed: _Optional[_Iterable[str]] = ..., pods: _Optional[_Union[Amount, _Mapping]] = ..., elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_digest: _Optional[str] = ..., snapshot_digest: _Optional[str] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("step", "pod", "gang", "from_node", "to_node")
    STEP_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    FROM_NODE_FIELD_NUMBER: _ClassVar[int]
    TO_NODE_FIELD_NUMBER: _ClassVar[int]
    step: int
    pod: str
    gang: str
    from_node: str
    to_node: str
    def __init__(self, step: _Optional[int] = ..., pod: _Optional[str] = ..., gang: _Optional[str] = ..., from_node: _Optional[str] = ..., to_node: _Optional[str] = ...) -> None: ...
