from google.protobuf import any_pb2 as _any_pb2
from dtfctl.protocol import device_pb2 as _device_pb2
from dtfctl.protocol import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompleteGroupRequest(_message.Message):
    __slots__ = ("group_key", "group_size", "device_type", "collective_type", "device_attributes")
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TYPE_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    group_key: int
    group_size: int
    device_type: str
    collective_type: int
    device_attributes: _device_pb2.DeviceAttributes
    def __init__(self, group_key: _Optional[int] = ..., group_size: _Optional[int] = ..., device_type: _Optional[str] = ..., collective_type: _Optional[int] = ..., device_attributes: _Optional[_Union[_device_pb2.DeviceAttributes, _Mapping]] = ...) -> None: ...

class CompleteGroupResponse(_message.Message):
    __slots__ = ("group_key", "group_size", "device_type", "num_tasks", "communicator_key", "device_attributes")
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NUM_TASKS_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_KEY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    group_key: int
    group_size: int
    device_type: str
    num_tasks: int
    communicator_key: bytes
    device_attributes: _containers.RepeatedCompositeFieldContainer[_device_pb2.DeviceAttributes]
    def __init__(self, group_key: _Optional[int] = ..., group_size: _Optional[int] = ..., device_type: _Optional[str] = ..., num_tasks: _Optional[int] = ..., communicator_key: _Optional[bytes] = ..., device_attributes: _Optional[_Iterable[_Union[_device_pb2.DeviceAttributes, _Mapping]]] = ...) -> None: ...

class CompleteInstanceRequest(_message.Message):
    __slots__ = ("name", "type", "data_type", "shape", "group_key", "group_size", "instance_key", "device_type", "subdiv_offset", "device", "is_source", "step_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_KEY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_TYPE_FIELD_NUMBER: _ClassVar[int]
    SUBDIV_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    IS_SOURCE_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: int
    data_type: _tensor_pb2.DataType
    shape: _tensor_pb2.TensorShapeProto
    group_key: int
    group_size: int
    instance_key: int
    device_type: str
    subdiv_offset: _containers.RepeatedScalarFieldContainer[int]
    device: str
    is_source: bool
    step_id: int
    def __init__(self, name: _Optional[str] = ..., type: _Optional[int] = ..., data_type: _Optional[_Union[_tensor_pb2.DataType, str]] = ..., shape: _Optional[_Union[_tensor_pb2.TensorShapeProto, _Mapping]] = ..., group_key: _Optional[int] = ..., group_size: _Optional[int] = ..., instance_key: _Optional[int] = ..., device_type: _Optional[str] = ..., subdiv_offset: _Optional[_Iterable[int]] = ..., device: _Optional[str] = ..., is_source: bool = ..., step_id: _Optional[int] = ...) -> None: ...

class CompleteInstanceResponse(_message.Message):
    __slots__ = ("instance_key", "source_rank")
    INSTANCE_KEY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_RANK_FIELD_NUMBER: _ClassVar[int]
    instance_key: int
    source_rank: int
    def __init__(self, instance_key: _Optional[int] = ..., source_rank: _Optional[int] = ...) -> None: ...

class GetStepSequenceRequest(_message.Message):
    __slots__ = ("graph_key",)
    GRAPH_KEY_FIELD_NUMBER: _ClassVar[int]
    graph_key: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, graph_key: _Optional[_Iterable[int]] = ...) -> None: ...

class StepSequence(_message.Message):
    __slots__ = ("graph_key", "next_step_id")
    GRAPH_KEY_FIELD_NUMBER: _ClassVar[int]
    NEXT_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    graph_key: int
    next_step_id: int
    def __init__(self, graph_key: _Optional[int] = ..., next_step_id: _Optional[int] = ...) -> None: ...

class GetStepSequenceResponse(_message.Message):
    __slots__ = ("step_sequence",)
    STEP_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    step_sequence: _containers.RepeatedCompositeFieldContainer[StepSequence]
    def __init__(self, step_sequence: _Optional[_Iterable[_Union[StepSequence, _Mapping]]] = ...) -> None: ...

class RecvBufRequest(_message.Message):
    __slots__ = ("step_id", "buf_rendezvous_key", "num_bytes", "src_device", "dst_device", "request_id", "src_incarnation")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    BUF_RENDEZVOUS_KEY_FIELD_NUMBER: _ClassVar[int]
    NUM_BYTES_FIELD_NUMBER: _ClassVar[int]
    SRC_DEVICE_FIELD_NUMBER: _ClassVar[int]
    DST_DEVICE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SRC_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    buf_rendezvous_key: str
    num_bytes: int
    src_device: str
    dst_device: str
    request_id: int
    src_incarnation: int
    def __init__(self, step_id: _Optional[int] = ..., buf_rendezvous_key: _Optional[str] = ..., num_bytes: _Optional[int] = ..., src_device: _Optional[str] = ..., dst_device: _Optional[str] = ..., request_id: _Optional[int] = ..., src_incarnation: _Optional[int] = ...) -> None: ...

class RecvBufResponse(_message.Message):
    __slots__ = ("transport_options", "send_start_micros", "require_ack")
    TRANSPORT_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SEND_START_MICROS_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_ACK_FIELD_NUMBER: _ClassVar[int]
    transport_options: _any_pb2.Any
    send_start_micros: int
    require_ack: bool
    def __init__(self, transport_options: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., send_start_micros: _Optional[int] = ..., require_ack: bool = ...) -> None: ...

class RecvBufRespExtra(_message.Message):
    __slots__ = ("tensor_content",)
    TENSOR_CONTENT_FIELD_NUMBER: _ClassVar[int]
    tensor_content: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, tensor_content: _Optional[_Iterable[bytes]] = ...) -> None: ...

class MarkRecvFinishedRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    def __init__(self, request_id: _Optional[int] = ...) -> None: ...

class MarkRecvFinishedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("device_attributes",)
    DEVICE_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    device_attributes: _containers.RepeatedCompositeFieldContainer[_device_pb2.DeviceAttributes]
    def __init__(self, device_attributes: _Optional[_Iterable[_Union[_device_pb2.DeviceAttributes, _Mapping]]] = ...) -> None: ...
