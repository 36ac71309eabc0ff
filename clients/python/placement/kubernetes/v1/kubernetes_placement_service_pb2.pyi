import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from placement.v1 import placement_pb2 as _placement_pb2
from placement.v1 import placement_service_pb2 as _placement_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PlaceObjectsRequest(_message.Message):
    __slots__ = ("objects", "revision", "as_of", "policy", "time_limit", "previous_placement", "validate_only", "label", "base")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedScalarFieldContainer[bytes]
    revision: str
    as_of: _timestamp_pb2.Timestamp
    policy: _placement_service_pb2.Policy
    time_limit: _duration_pb2.Duration
    previous_placement: _containers.RepeatedCompositeFieldContainer[_placement_pb2.Binding]
    validate_only: bool
    label: str
    base: ObjectsBase
    def __init__(self, objects: _Optional[_Iterable[bytes]] = ..., revision: _Optional[str] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., policy: _Optional[_Union[_placement_service_pb2.Policy, _Mapping]] = ..., time_limit: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., previous_placement: _Optional[_Iterable[_Union[_placement_pb2.Binding, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., label: _Optional[str] = ..., base: _Optional[_Union[ObjectsBase, _Mapping]] = ...) -> None: ...

class ObjectsBase(_message.Message):
    __slots__ = ("digest", "gone")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    gone: _containers.RepeatedCompositeFieldContainer[ObjectName]
    def __init__(self, digest: _Optional[str] = ..., gone: _Optional[_Iterable[_Union[ObjectName, _Mapping]]] = ...) -> None: ...

class ObjectName(_message.Message):
    __slots__ = ("api_version", "kind", "namespace", "name")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    kind: str
    namespace: str
    name: str
    def __init__(self, api_version: _Optional[str] = ..., kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class PlaceObjectsResponse(_message.Message):
    __slots__ = ("placement", "warnings", "objects_digest")
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    placement: _placement_pb2.Placement
    warnings: _containers.RepeatedScalarFieldContainer[str]
    objects_digest: str
    def __init__(self, placement: _Optional[_Union[_placement_pb2.Placement, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ..., objects_digest: _Optional[str] = ...) -> None: ...

class TranslateObjectsRequest(_message.Message):
    __slots__ = ("objects",)
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, objects: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TranslateObjectsResponse(_message.Message):
    __slots__ = ("request", "warnings")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    request: _placement_service_pb2.ComputePlacementRequest
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request: _Optional[_Union[_placement_service_pb2.ComputePlacementRequest, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...
