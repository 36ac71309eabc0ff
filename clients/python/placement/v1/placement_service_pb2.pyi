import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from placement.v1 import cluster_pb2 as _cluster_pb2
from placement.v1 import placement_pb2 as _placement_pb2
from placement.v1 import workload_pb2 as _workload_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EvictionPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVICTION_POLICY_UNSPECIFIED: _ClassVar[EvictionPolicy]
    EVICTION_POLICY_NONE: _ClassVar[EvictionPolicy]
    EVICTION_POLICY_PREEMPT: _ClassVar[EvictionPolicy]
    EVICTION_POLICY_RECLAIM: _ClassVar[EvictionPolicy]
    EVICTION_POLICY_REPACK: _ClassVar[EvictionPolicy]

class ExtrasPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXTRAS_POLICY_UNSPECIFIED: _ClassVar[ExtrasPolicy]
    EXTRAS_POLICY_AFTER_MINIMUMS: _ClassVar[ExtrasPolicy]
    EXTRAS_POLICY_WITH_PRIORITY: _ClassVar[ExtrasPolicy]
EVICTION_POLICY_UNSPECIFIED: EvictionPolicy
EVICTION_POLICY_NONE: EvictionPolicy
EVICTION_POLICY_PREEMPT: EvictionPolicy
EVICTION_POLICY_RECLAIM: EvictionPolicy
EVICTION_POLICY_REPACK: EvictionPolicy
EXTRAS_POLICY_UNSPECIFIED: ExtrasPolicy
EXTRAS_POLICY_AFTER_MINIMUMS: ExtrasPolicy
EXTRAS_POLICY_WITH_PRIORITY: ExtrasPolicy

class ComputePlacementRequest(_message.Message):
    __slots__ = ("snapshot", "gangs", "policy", "time_limit", "previous_placement", "validate_only", "label", "base", "pod_templates")
    class PodTemplatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _workload_pb2.PodTemplate
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_workload_pb2.PodTemplate, _Mapping]] = ...) -> None: ...
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    GANGS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    POD_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    snapshot: _cluster_pb2.ClusterSnapshot
    gangs: _containers.RepeatedCompositeFieldContainer[_workload_pb2.PodGang]
    policy: Policy
    time_limit: _duration_pb2.Duration
    previous_placement: _containers.RepeatedCompositeFieldContainer[_placement_pb2.Binding]
    validate_only: bool
    label: str
    base: SnapshotBase
    pod_templates: _containers.MessageMap[str, _workload_pb2.PodTemplate]
    def __init__(self, snapshot: _Optional[_Union[_cluster_pb2.ClusterSnapshot, _Mapping]] = ..., gangs: _Optional[_Iterable[_Union[_workload_pb2.PodGang, _Mapping]]] = ..., policy: _Optional[_Union[Policy, _Mapping]] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., previous_placement: _Optional[_Iterable[_Union[_placement_pb2.Binding, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., label: _Optional[str] = ..., base: _Optional[_Union[SnapshotBase, _Mapping]] = ..., pod_templates: _Optional[_Mapping[str, _workload_pb2.PodTemplate]] = ...) -> None: ...

class SnapshotBase(_message.Message):
    __slots__ = ("digest", "gone_nodes", "gone_pods")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GONE_NODES_FIELD_NUMBER: _ClassVar[int]
    GONE_PODS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    gone_nodes: _containers.RepeatedScalarFieldContainer[str]
    gone_pods: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., gone_nodes: _Optional[_Iterable[str]] = ..., gone_pods: _Optional[_Iterable[str]] = ...) -> None: ...

class ComputePlacementResponse(_message.Message):
    __slots__ = ("placement",)
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    placement: _placement_pb2.Placement
    def __init__(self, placement: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ...) -> None: ...

class StreamPlacementRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: ComputePlacementRequest
    def __init__(self, request: _Optional[_Union[ComputePlacementRequest, _Mapping]] = ...) -> None: ...

class StreamPlacementResponse(_message.Message):
    __slots__ = ("progress", "placement")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    placement: _placement_pb2.Placement
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., placement: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("elapsed", "phase", "tiers", "placed_gang_count")
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    PLACED_GANG_COUNT_FIELD_NUMBER: _ClassVar[int]
    elapsed: _duration_pb2.Duration
    phase: str
    tiers: _containers.RepeatedCompositeFieldContainer[_placement_pb2.ObjectiveTier]
    placed_gang_count: int
    def __init__(self, elapsed: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., phase: _Optional[str] = ..., tiers: _Optional[_Iterable[_Union[_placement_pb2.ObjectiveTier, _Mapping]]] = ..., placed_gang_count: _Optional[int] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("gpu_resources", "deterministic", "eviction", "starvation_after", "tolerances", "extras")
    class TolerancesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    GPU_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    EVICTION_FIELD_NUMBER: _ClassVar[int]
    STARVATION_AFTER_FIELD_NUMBER: _ClassVar[int]
    TOLERANCES_FIELD_NUMBER: _ClassVar[int]
    EXTRAS_FIELD_NUMBER: _ClassVar[int]
    gpu_resources: _containers.RepeatedScalarFieldContainer[str]
    deterministic: bool
    eviction: EvictionPolicy
    starvation_after: _duration_pb2.Duration
    tolerances: _containers.ScalarMap[str, float]
    extras: ExtrasPolicy
    def __init__(self, gpu_resources: _Optional[_Iterable[str]] = ..., deterministic: _Optional[bool] = ..., eviction: _Optional[_Union[EvictionPolicy, str]] = ..., starvation_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., tolerances: _Optional[_Mapping[str, float]] = ..., extras: _Optional[_Union[ExtrasPolicy, str]] = ...) -> None: ...
