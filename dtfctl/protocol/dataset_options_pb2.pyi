from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class DatasetOptions(_message.Message):
    __slots__ = ("deterministic",)
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    deterministic: bool
    def __init__(self, deterministic: bool = ...) -> None: ...
