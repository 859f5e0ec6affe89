from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProfileStart(_message.Message):
    __slots__ = ("id", "seconds", "job", "every")
    ID_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    id: str
    seconds: float
    job: str
    every: int
    def __init__(self, id: _Optional[str] = ..., seconds: _Optional[float] = ..., job: _Optional[str] = ..., every: _Optional[int] = ...) -> None: ...

class ProfileState(_message.Message):
    __slots__ = ("task", "incarnation", "now_ns", "steps", "running", "id", "step_us")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NOW_NS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_US_FIELD_NUMBER: _ClassVar[int]
    task: str
    incarnation: int
    now_ns: int
    steps: int
    running: bool
    id: str
    step_us: float
    def __init__(self, task: _Optional[str] = ..., incarnation: _Optional[int] = ..., now_ns: _Optional[int] = ..., steps: _Optional[int] = ..., running: bool = ..., id: _Optional[str] = ..., step_us: _Optional[float] = ...) -> None: ...

class ProfileQuestion(_message.Message):
    __slots__ = ("id", "start", "client")
    ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    start: int
    client: str
    def __init__(self, id: _Optional[str] = ..., start: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class ProfileEvents(_message.Message):
    __slots__ = ("text", "kind", "name", "about", "start_ns", "spent_ns", "thread", "step", "bytes", "flow")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    SPENT_NS_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    text: _containers.RepeatedScalarFieldContainer[str]
    kind: _containers.RepeatedScalarFieldContainer[int]
    name: _containers.RepeatedScalarFieldContainer[int]
    about: _containers.RepeatedScalarFieldContainer[int]
    start_ns: _containers.RepeatedScalarFieldContainer[int]
    spent_ns: _containers.RepeatedScalarFieldContainer[int]
    thread: _containers.RepeatedScalarFieldContainer[int]
    step: _containers.RepeatedScalarFieldContainer[int]
    bytes: _containers.RepeatedScalarFieldContainer[int]
    flow: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, text: _Optional[_Iterable[str]] = ..., kind: _Optional[_Iterable[int]] = ..., name: _Optional[_Iterable[int]] = ..., about: _Optional[_Iterable[int]] = ..., start_ns: _Optional[_Iterable[int]] = ..., spent_ns: _Optional[_Iterable[int]] = ..., thread: _Optional[_Iterable[int]] = ..., step: _Optional[_Iterable[int]] = ..., bytes: _Optional[_Iterable[int]] = ..., flow: _Optional[_Iterable[int]] = ...) -> None: ...

class ProfilePart(_message.Message):
    __slots__ = ("events", "lost", "traced", "steps", "last", "client", "updates", "overtaken", "between")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    TRACED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    OVERTAKEN_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_FIELD_NUMBER: _ClassVar[int]
    events: ProfileEvents
    lost: int
    traced: int
    steps: int
    last: bool
    client: _containers.RepeatedScalarFieldContainer[str]
    updates: int
    overtaken: int
    between: int
    def __init__(self, events: _Optional[_Union[ProfileEvents, _Mapping]] = ..., lost: _Optional[int] = ..., traced: _Optional[int] = ..., steps: _Optional[int] = ..., last: bool = ..., client: _Optional[_Iterable[str]] = ..., updates: _Optional[int] = ..., overtaken: _Optional[int] = ..., between: _Optional[int] = ...) -> None: ...

class ClientRecord(_message.Message):
    __slots__ = ("id", "name", "events", "lost", "runs", "last")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    events: ProfileEvents
    lost: int
    runs: int
    last: bool
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., events: _Optional[_Union[ProfileEvents, _Mapping]] = ..., lost: _Optional[int] = ..., runs: _Optional[int] = ..., last: bool = ...) -> None: ...
