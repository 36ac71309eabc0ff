import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from placement.v1 import cluster_pb2 as _cluster_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TolerationOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOLERATION_OPERATOR_UNSPECIFIED: _ClassVar[TolerationOperator]
    TOLERATION_OPERATOR_EQUAL: _ClassVar[TolerationOperator]
    TOLERATION_OPERATOR_EXISTS: _ClassVar[TolerationOperator]
TOLERATION_OPERATOR_UNSPECIFIED: TolerationOperator
TOLERATION_OPERATOR_EQUAL: TolerationOperator
TOLERATION_OPERATOR_EXISTS: TolerationOperator

class PodGang(_message.Message):
    __slots__ = ("name", "priority", "groups", "packing_scopes", "base_gang", "uninitialized", "previous_nodes", "unsupported", "create_time", "queue", "not_preemptible", "start_time", "minimum_run_time", "minimum_run_time_before_reclaim", "never_preempts", "volume_claims")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PACKING_SCOPES_FIELD_NUMBER: _ClassVar[int]
    BASE_GANG_FIELD_NUMBER: _ClassVar[int]
    UNINITIALIZED_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_NODES_FIELD_NUMBER: _ClassVar[int]
    UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NOT_PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_RUN_TIME_BEFORE_RECLAIM_FIELD_NUMBER: _ClassVar[int]
    NEVER_PREEMPTS_FIELD_NUMBER: _ClassVar[int]
    VOLUME_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    priority: int
    groups: _containers.RepeatedCompositeFieldContainer[PodGroup]
    packing_scopes: _containers.RepeatedCompositeFieldContainer[PackingScope]
    base_gang: str
    uninitialized: bool
    previous_nodes: _containers.RepeatedScalarFieldContainer[str]
    unsupported: _containers.RepeatedScalarFieldContainer[str]
    create_time: _timestamp_pb2.Timestamp
    queue: str
    not_preemptible: bool
    start_time: _timestamp_pb2.Timestamp
    minimum_run_time: _duration_pb2.Duration
    minimum_run_time_before_reclaim: _duration_pb2.Duration
    never_preempts: bool
    volume_claims: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., priority: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[PodGroup, _Mapping]]] = ..., packing_scopes: _Optional[_Iterable[_Union[PackingScope, _Mapping]]] = ..., base_gang: _Optional[str] = ..., uninitialized: _Optional[bool] = ..., previous_nodes: _Optional[_Iterable[str]] = ..., unsupported: _Optional[_Iterable[str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., queue: _Optional[str] = ..., not_preemptible: _Optional[bool] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., minimum_run_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., minimum_run_time_before_reclaim: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., never_preempts: _Optional[bool] = ..., volume_claims: _Optional[_Iterable[str]] = ...) -> None: ...

class PodGroup(_message.Message):
    __slots__ = ("name", "min_replicas", "pod_sets", "bound_pods", "gated_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    POD_SETS_FIELD_NUMBER: _ClassVar[int]
    BOUND_PODS_FIELD_NUMBER: _ClassVar[int]
    GATED_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    min_replicas: int
    pod_sets: _containers.RepeatedCompositeFieldContainer[PodSet]
    bound_pods: _containers.RepeatedCompositeFieldContainer[BoundPod]
    gated_count: int
    def __init__(self, name: _Optional[str] = ..., min_replicas: _Optional[int] = ..., pod_sets: _Optional[_Iterable[_Union[PodSet, _Mapping]]] = ..., bound_pods: _Optional[_Iterable[_Union[BoundPod, _Mapping]]] = ..., gated_count: _Optional[int] = ...) -> None: ...

class PodSet(_message.Message):
    __slots__ = ("template", "pods", "bound_pods", "template_name")
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    BOUND_PODS_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_NAME_FIELD_NUMBER: _ClassVar[int]
    template: PodTemplate
    pods: _containers.RepeatedCompositeFieldContainer[Pod]
    bound_pods: _containers.RepeatedCompositeFieldContainer[BoundPod]
    template_name: str
    def __init__(self, template: _Optional[_Union[PodTemplate, _Mapping]] = ..., pods: _Optional[_Iterable[_Union[Pod, _Mapping]]] = ..., bound_pods: _Optional[_Iterable[_Union[BoundPod, _Mapping]]] = ..., template_name: _Optional[str] = ...) -> None: ...

class Pod(_message.Message):
    __slots__ = ("name", "uid", "rank")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    rank: int
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., rank: _Optional[int] = ...) -> None: ...

class BoundPod(_message.Message):
    __slots__ = ("name", "node", "reservation", "devices", "held")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    name: str
    node: str
    reservation: str
    devices: _containers.RepeatedScalarFieldContainer[int]
    held: _cluster_pb2.Resources
    def __init__(self, name: _Optional[str] = ..., node: _Optional[str] = ..., reservation: _Optional[str] = ..., devices: _Optional[_Iterable[int]] = ..., held: _Optional[_Union[_cluster_pb2.Resources, _Mapping]] = ...) -> None: ...

class PodTemplate(_message.Message):
    __slots__ = ("requests", "labels", "node_selector", "required_node_affinity", "tolerations", "required_affinity", "required_anti_affinity", "host_ports", "spread_constraints", "device_share", "same_pcie_nics", "compute_domain", "required_reservation", "ignores_reservations", "required_partition", "unsupported")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_ANTI_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    HOST_PORTS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SHARE_FIELD_NUMBER: _ClassVar[int]
    SAME_PCIE_NICS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_RESERVATION_FIELD_NUMBER: _ClassVar[int]
    IGNORES_RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_PARTITION_FIELD_NUMBER: _ClassVar[int]
    UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    requests: _cluster_pb2.Resources
    labels: _containers.ScalarMap[str, str]
    node_selector: _containers.ScalarMap[str, str]
    required_node_affinity: NodeSelector
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    required_affinity: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.PodAffinityTerm]
    required_anti_affinity: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.PodAffinityTerm]
    host_ports: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.HostPort]
    spread_constraints: _containers.RepeatedCompositeFieldContainer[SpreadConstraint]
    device_share: DeviceShare
    same_pcie_nics: int
    compute_domain: str
    required_reservation: ReservationSelector
    ignores_reservations: bool
    required_partition: RequiredPartition
    unsupported: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, requests: _Optional[_Union[_cluster_pb2.Resources, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., required_node_affinity: _Optional[_Union[NodeSelector, _Mapping]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., required_affinity: _Optional[_Iterable[_Union[_cluster_pb2.PodAffinityTerm, _Mapping]]] = ..., required_anti_affinity: _Optional[_Iterable[_Union[_cluster_pb2.PodAffinityTerm, _Mapping]]] = ..., host_ports: _Optional[_Iterable[_Union[_cluster_pb2.HostPort, _Mapping]]] = ..., spread_constraints: _Optional[_Iterable[_Union[SpreadConstraint, _Mapping]]] = ..., device_share: _Optional[_Union[DeviceShare, _Mapping]] = ..., same_pcie_nics: _Optional[int] = ..., compute_domain: _Optional[str] = ..., required_reservation: _Optional[_Union[ReservationSelector, _Mapping]] = ..., ignores_reservations: _Optional[bool] = ..., required_partition: _Optional[_Union[RequiredPartition, _Mapping]] = ..., unsupported: _Optional[_Iterable[str]] = ...) -> None: ...

class RequiredPartition(_message.Message):
    __slots__ = ("best_score", "ring_bandwidth")
    BEST_SCORE_FIELD_NUMBER: _ClassVar[int]
    RING_BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    best_score: bool
    ring_bandwidth: int
    def __init__(self, best_score: _Optional[bool] = ..., ring_bandwidth: _Optional[int] = ...) -> None: ...

class DeviceShare(_message.Message):
    __slots__ = ("compute_milli", "memory_milli", "memory_bytes", "count")
    COMPUTE_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MILLI_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    compute_milli: int
    memory_milli: int
    memory_bytes: int
    count: int
    def __init__(self, compute_milli: _Optional[int] = ..., memory_milli: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ReservationSelector(_message.Message):
    __slots__ = ("name", "terms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    terms: _containers.RepeatedCompositeFieldContainer[NodeSelectorTerm]
    def __init__(self, name: _Optional[str] = ..., terms: _Optional[_Iterable[_Union[NodeSelectorTerm, _Mapping]]] = ...) -> None: ...

class NodeSelector(_message.Message):
    __slots__ = ("terms",)
    TERMS_FIELD_NUMBER: _ClassVar[int]
    terms: _containers.RepeatedCompositeFieldContainer[NodeSelectorTerm]
    def __init__(self, terms: _Optional[_Iterable[_Union[NodeSelectorTerm, _Mapping]]] = ...) -> None: ...

class NodeSelectorTerm(_message.Message):
    __slots__ = ("match_expressions", "match_fields")
    MATCH_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELDS_FIELD_NUMBER: _ClassVar[int]
    match_expressions: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.SelectorRequirement]
    match_fields: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.SelectorRequirement]
    def __init__(self, match_expressions: _Optional[_Iterable[_Union[_cluster_pb2.SelectorRequirement, _Mapping]]] = ..., match_fields: _Optional[_Iterable[_Union[_cluster_pb2.SelectorRequirement, _Mapping]]] = ...) -> None: ...

class Toleration(_message.Message):
    __slots__ = ("key", "operator", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: TolerationOperator
    value: str
    effect: _cluster_pb2.TaintEffect
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[_Union[TolerationOperator, str]] = ..., value: _Optional[str] = ..., effect: _Optional[_Union[_cluster_pb2.TaintEffect, str]] = ...) -> None: ...

class SpreadConstraint(_message.Message):
    __slots__ = ("max_skew", "topology_key", "selector", "min_domains", "ignore_node_affinity", "honor_taints")
    MAX_SKEW_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MIN_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    HONOR_TAINTS_FIELD_NUMBER: _ClassVar[int]
    max_skew: int
    topology_key: str
    selector: _cluster_pb2.LabelSelector
    min_domains: int
    ignore_node_affinity: bool
    honor_taints: bool
    def __init__(self, max_skew: _Optional[int] = ..., topology_key: _Optional[str] = ..., selector: _Optional[_Union[_cluster_pb2.LabelSelector, _Mapping]] = ..., min_domains: _Optional[int] = ..., ignore_node_affinity: _Optional[bool] = ..., honor_taints: _Optional[bool] = ...) -> None: ...

class PackingScope(_message.Message):
    __slots__ = ("name", "groups", "required_level", "preferred_level")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_LEVEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    required_level: str
    preferred_level: str
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., required_level: _Optional[str] = ..., preferred_level: _Optional[str] = ...) -> None: ...
