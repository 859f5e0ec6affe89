from dtfctl.protocol import config_pb2 as _config_pb2
from dtfctl.protocol import device_pb2 as _device_pb2
from dtfctl.protocol import graph_pb2 as _graph_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphQuestion(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class StepSignature(_message.Message):
    __slots__ = ("feed", "fetch", "target", "everywhere")
    FEED_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    EVERYWHERE_FIELD_NUMBER: _ClassVar[int]
    feed: _containers.RepeatedScalarFieldContainer[str]
    fetch: _containers.RepeatedScalarFieldContainer[str]
    target: _containers.RepeatedScalarFieldContainer[str]
    everywhere: bool
    def __init__(self, feed: _Optional[_Iterable[str]] = ..., fetch: _Optional[_Iterable[str]] = ..., target: _Optional[_Iterable[str]] = ..., everywhere: bool = ...) -> None: ...

class SessionGraphs(_message.Message):
    __slots__ = ("handle", "job", "master", "graph", "device", "config", "step")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    handle: str
    job: str
    master: str
    graph: _graph_pb2.GraphDef
    device: _containers.RepeatedCompositeFieldContainer[_device_pb2.DeviceAttributes]
    config: _config_pb2.ConfigProto
    step: _containers.RepeatedCompositeFieldContainer[StepSignature]
    def __init__(self, handle: _Optional[str] = ..., job: _Optional[str] = ..., master: _Optional[str] = ..., graph: _Optional[_Union[_graph_pb2.GraphDef, _Mapping]] = ..., device: _Optional[_Iterable[_Union[_device_pb2.DeviceAttributes, _Mapping]]] = ..., config: _Optional[_Union[_config_pb2.ConfigProto, _Mapping]] = ..., step: _Optional[_Iterable[_Union[StepSignature, _Mapping]]] = ...) -> None: ...

class GraphsAnswer(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _containers.RepeatedCompositeFieldContainer[SessionGraphs]
    def __init__(self, session: _Optional[_Iterable[_Union[SessionGraphs, _Mapping]]] = ...) -> None: ...
