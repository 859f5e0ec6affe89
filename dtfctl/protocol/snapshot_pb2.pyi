from dtfctl.protocol import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SnapshotMetadataRecord(_message.Message):
    __slots__ = ("graph_hash", "run_id", "creation_timestamp", "version", "dtype", "num_elements", "finalized")
    GRAPH_HASH_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CREATION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    NUM_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    FINALIZED_FIELD_NUMBER: _ClassVar[int]
    graph_hash: str
    run_id: str
    creation_timestamp: int
    version: int
    dtype: _containers.RepeatedScalarFieldContainer[_tensor_pb2.DataType]
    num_elements: int
    finalized: bool
    def __init__(self, graph_hash: _Optional[str] = ..., run_id: _Optional[str] = ..., creation_timestamp: _Optional[int] = ..., version: _Optional[int] = ..., dtype: _Optional[_Iterable[_Union[_tensor_pb2.DataType, str]]] = ..., num_elements: _Optional[int] = ..., finalized: bool = ...) -> None: ...
