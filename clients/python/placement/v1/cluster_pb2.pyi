import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaintEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TAINT_EFFECT_UNSPECIFIED: _ClassVar[TaintEffect]
    TAINT_EFFECT_NO_SCHEDULE: _ClassVar[TaintEffect]
    TAINT_EFFECT_PREFER_NO_SCHEDULE: _ClassVar[TaintEffect]
    TAINT_EFFECT_NO_EXECUTE: _ClassVar[TaintEffect]

class PartitionPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTITION_POLICY_UNSPECIFIED: _ClassVar[PartitionPolicy]
    PARTITION_POLICY_PREFER: _ClassVar[PartitionPolicy]
    PARTITION_POLICY_HONOR: _ClassVar[PartitionPolicy]

class SelectorOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SELECTOR_OPERATOR_UNSPECIFIED: _ClassVar[SelectorOperator]
    SELECTOR_OPERATOR_IN: _ClassVar[SelectorOperator]
    SELECTOR_OPERATOR_NOT_IN: _ClassVar[SelectorOperator]
    SELECTOR_OPERATOR_EXISTS: _ClassVar[SelectorOperator]
    SELECTOR_OPERATOR_DOES_NOT_EXIST: _ClassVar[SelectorOperator]
    SELECTOR_OPERATOR_GT: _ClassVar[SelectorOperator]
    SELECTOR_OPERATOR_LT: _ClassVar[SelectorOperator]
TAINT_EFFECT_UNSPECIFIED: TaintEffect
TAINT_EFFECT_NO_SCHEDULE: TaintEffect
TAINT_EFFECT_PREFER_NO_SCHEDULE: TaintEffect
TAINT_EFFECT_NO_EXECUTE: TaintEffect
PARTITION_POLICY_UNSPECIFIED: PartitionPolicy
PARTITION_POLICY_PREFER: PartitionPolicy
PARTITION_POLICY_HONOR: PartitionPolicy
SELECTOR_OPERATOR_UNSPECIFIED: SelectorOperator
SELECTOR_OPERATOR_IN: SelectorOperator
SELECTOR_OPERATOR_NOT_IN: SelectorOperator
SELECTOR_OPERATOR_EXISTS: SelectorOperator
SELECTOR_OPERATOR_DOES_NOT_EXIST: SelectorOperator
SELECTOR_OPERATOR_GT: SelectorOperator
SELECTOR_OPERATOR_LT: SelectorOperator

class ClusterSnapshot(_message.Message):
    __slots__ = ("revision", "nodes", "pods", "as_of", "queues", "reservations", "disruption_budgets")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    DISRUPTION_BUDGETS_FIELD_NUMBER: _ClassVar[int]
    revision: str
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    pods: _containers.RepeatedCompositeFieldContainer[RunningPod]
    as_of: _timestamp_pb2.Timestamp
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    reservations: _containers.RepeatedCompositeFieldContainer[Reservation]
    disruption_budgets: _containers.RepeatedCompositeFieldContainer[DisruptionBudget]
    def __init__(self, revision: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., pods: _Optional[_Iterable[_Union[RunningPod, _Mapping]]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., reservations: _Optional[_Iterable[_Union[Reservation, _Mapping]]] = ..., disruption_budgets: _Optional[_Iterable[_Union[DisruptionBudget, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "labels", "allocatable", "requested", "taints", "unschedulable", "not_ready", "host_ports", "devices", "partitions", "partition_policy", "compute_domain", "closed_because", "compute_domain_pods")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    HOST_PORTS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_POLICY_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    CLOSED_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_DOMAIN_PODS_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.ScalarMap[str, str]
    allocatable: Resources
    requested: Resources
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    unschedulable: bool
    not_ready: bool
    host_ports: _containers.RepeatedCompositeFieldContainer[HostPort]
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    partitions: _containers.RepeatedCompositeFieldContainer[DevicePartition]
    partition_policy: PartitionPolicy
    compute_domain: str
    closed_because: str
    compute_domain_pods: int
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., allocatable: _Optional[_Union[Resources, _Mapping]] = ..., requested: _Optional[_Union[Resources, _Mapping]] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., unschedulable: _Optional[bool] = ..., not_ready: _Optional[bool] = ..., host_ports: _Optional[_Iterable[_Union[HostPort, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[DevicePartition, _Mapping]]] = ..., partition_policy: _Optional[_Union[PartitionPolicy, str]] = ..., compute_domain: _Optional[str] = ..., closed_because: _Optional[str] = ..., compute_domain_pods: _Optional[int] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("index", "unhealthy", "used_milli", "used_memory_milli", "memory_bytes", "numa_node", "pcie_switch", "nics")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_FIELD_NUMBER: _ClassVar[int]
    USED_MILLI_FIELD_NUMBER: _ClassVar[int]
    USED_MEMORY_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUMA_NODE_FIELD_NUMBER: _ClassVar[int]
    PCIE_SWITCH_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    index: int
    unhealthy: bool
    used_milli: int
    used_memory_milli: int
    memory_bytes: int
    numa_node: int
    pcie_switch: str
    nics: int
    def __init__(self, index: _Optional[int] = ..., unhealthy: _Optional[bool] = ..., used_milli: _Optional[int] = ..., used_memory_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., numa_node: _Optional[int] = ..., pcie_switch: _Optional[str] = ..., nics: _Optional[int] = ...) -> None: ...

class DevicePartition(_message.Message):
    __slots__ = ("devices", "score", "ring_bandwidth")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    RING_BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedScalarFieldContainer[int]
    score: int
    ring_bandwidth: int
    def __init__(self, devices: _Optional[_Iterable[int]] = ..., score: _Optional[int] = ..., ring_bandwidth: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("name", "parent", "limit", "guaranteed", "used", "used_not_preemptible", "not_reclaimable", "minimum_run_time_before_reclaim", "kept")
    class LimitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class GuaranteedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class UsedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class UsedNotPreemptibleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class KeptEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    GUARANTEED_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    USED_NOT_PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    NOT_RECLAIMABLE_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_RUN_TIME_BEFORE_RECLAIM_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    name: str
    parent: str
    limit: _containers.ScalarMap[str, int]
    guaranteed: _containers.ScalarMap[str, int]
    used: _containers.ScalarMap[str, int]
    used_not_preemptible: _containers.ScalarMap[str, int]
    not_reclaimable: bool
    minimum_run_time_before_reclaim: _duration_pb2.Duration
    kept: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., parent: _Optional[str] = ..., limit: _Optional[_Mapping[str, int]] = ..., guaranteed: _Optional[_Mapping[str, int]] = ..., used: _Optional[_Mapping[str, int]] = ..., used_not_preemptible: _Optional[_Mapping[str, int]] = ..., not_reclaimable: _Optional[bool] = ..., minimum_run_time_before_reclaim: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., kept: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("name", "node", "held", "owners", "restricted", "allocate_once", "labels", "closed", "devices", "used_up")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    RESTRICTED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATE_ONCE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    USED_UP_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    held: Resources
    owners: _containers.RepeatedCompositeFieldContainer[ReservationOwner]
    restricted: bool
    allocate_once: bool
    labels: _containers.ScalarMap[str, str]
    closed: bool
    devices: _containers.RepeatedScalarFieldContainer[int]
    used_up: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ..., held: _Optional[_Union[Resources, _Mapping]] = ..., owners: _Optional[_Iterable[_Union[ReservationOwner, _Mapping]]] = ..., restricted: _Optional[bool] = ..., allocate_once: _Optional[bool] = ..., labels: _Optional[_Mapping[str, str]] = ..., closed: _Optional[bool] = ..., devices: _Optional[_Iterable[int]] = ..., used_up: _Optional[_Iterable[str]] = ...) -> None: ...

class ReservationOwner(_message.Message):
    __slots__ = ("gang", "pod", "namespace", "selector")
    GANG_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    gang: str
    pod: str
    namespace: str
    selector: LabelSelector
    def __init__(self, gang: _Optional[str] = ..., pod: _Optional[str] = ..., namespace: _Optional[str] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ...) -> None: ...

class DisruptionBudget(_message.Message):
    __slots__ = ("name", "selector", "allowed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    name: str
    selector: LabelSelector
    allowed: int
    def __init__(self, name: _Optional[str] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., allowed: _Optional[int] = ...) -> None: ...

class RunningPod(_message.Message):
    __slots__ = ("name", "node", "labels", "required_anti_affinity")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_ANTI_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    labels: _containers.ScalarMap[str, str]
    required_anti_affinity: _containers.RepeatedCompositeFieldContainer[PodAffinityTerm]
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., required_anti_affinity: _Optional[_Iterable[_Union[PodAffinityTerm, _Mapping]]] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("cpu_millis", "memory_bytes", "ephemeral_storage_bytes", "pod_count", "extended")
    class ExtendedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CPU_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_STORAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    POD_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    cpu_millis: int
    memory_bytes: int
    ephemeral_storage_bytes: int
    pod_count: int
    extended: _containers.ScalarMap[str, int]
    def __init__(self, cpu_millis: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., ephemeral_storage_bytes: _Optional[int] = ..., pod_count: _Optional[int] = ..., extended: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: TaintEffect
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[_Union[TaintEffect, str]] = ...) -> None: ...

class HostPort(_message.Message):
    __slots__ = ("port", "protocol", "host_ip")
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    HOST_IP_FIELD_NUMBER: _ClassVar[int]
    port: int
    protocol: str
    host_ip: str
    def __init__(self, port: _Optional[int] = ..., protocol: _Optional[str] = ..., host_ip: _Optional[str] = ...) -> None: ...

class PodAffinityTerm(_message.Message):
    __slots__ = ("selector", "topology_key", "namespaces", "all_namespaces")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    ALL_NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    selector: LabelSelector
    topology_key: str
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    all_namespaces: bool
    def __init__(self, selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., topology_key: _Optional[str] = ..., namespaces: _Optional[_Iterable[str]] = ..., all_namespaces: _Optional[bool] = ...) -> None: ...

class LabelSelector(_message.Message):
    __slots__ = ("match_labels", "match_expressions")
    class MatchLabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MATCH_LABELS_FIELD_NUMBER: _ClassVar[int]
    MATCH_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    match_labels: _containers.ScalarMap[str, str]
    match_expressions: _containers.RepeatedCompositeFieldContainer[SelectorRequirement]
    def __init__(self, match_labels: _Optional[_Mapping[str, str]] = ..., match_expressions: _Optional[_Iterable[_Union[SelectorRequirement, _Mapping]]] = ...) -> None: ...

class SelectorRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: SelectorOperator
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[_Union[SelectorOperator, str]] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...
