from dtfctl.protocol import device_pb2 as _device_pb2
from dtfctl.protocol import graph_pb2 as _graph_pb2
from dtfctl.protocol import stats_pb2 as _stats_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TaskStatus(_message.Message):
    __slots__ = ("task", "incarnation", "device", "place")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    task: str
    incarnation: int
    device: _containers.RepeatedCompositeFieldContainer[_device_pb2.DeviceAttributes]
    place: str
    def __init__(self, task: _Optional[str] = ..., incarnation: _Optional[int] = ..., device: _Optional[_Iterable[_Union[_device_pb2.DeviceAttributes, _Mapping]]] = ..., place: _Optional[str] = ...) -> None: ...

class Peer(_message.Message):
    __slots__ = ("task", "address", "incarnation")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    task: str
    address: str
    incarnation: int
    def __init__(self, task: _Optional[str] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class OpenLinkRequest(_message.Message):
    __slots__ = ("task", "incarnation", "to_incarnation", "transport")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TO_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    task: str
    incarnation: int
    to_incarnation: int
    transport: str
    def __init__(self, task: _Optional[str] = ..., incarnation: _Optional[int] = ..., to_incarnation: _Optional[int] = ..., transport: _Optional[str] = ...) -> None: ...

class OpenLinkResponse(_message.Message):
    __slots__ = ("place", "unix_name", "port", "ticket", "secret", "encrypted", "incarnation")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    UNIX_NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    place: str
    unix_name: str
    port: int
    ticket: bytes
    secret: bytes
    encrypted: bool
    incarnation: int
    def __init__(self, place: _Optional[str] = ..., unix_name: _Optional[str] = ..., port: _Optional[int] = ..., ticket: _Optional[bytes] = ..., secret: _Optional[bytes] = ..., encrypted: bool = ..., incarnation: _Optional[int] = ...) -> None: ...

class OpenClientRequest(_message.Message):
    __slots__ = ("place", "incarnation", "session", "task", "to_incarnation")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TO_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    place: str
    incarnation: int
    session: str
    task: str
    to_incarnation: int
    def __init__(self, place: _Optional[str] = ..., incarnation: _Optional[int] = ..., session: _Optional[str] = ..., task: _Optional[str] = ..., to_incarnation: _Optional[int] = ...) -> None: ...

class ClientSignature(_message.Message):
    __slots__ = ("session", "number", "feed", "fetch", "target", "graph_key")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    GRAPH_KEY_FIELD_NUMBER: _ClassVar[int]
    session: str
    number: int
    feed: _containers.RepeatedScalarFieldContainer[str]
    fetch: _containers.RepeatedScalarFieldContainer[str]
    target: _containers.RepeatedScalarFieldContainer[str]
    graph_key: int
    def __init__(self, session: _Optional[str] = ..., number: _Optional[int] = ..., feed: _Optional[_Iterable[str]] = ..., fetch: _Optional[_Iterable[str]] = ..., target: _Optional[_Iterable[str]] = ..., graph_key: _Optional[int] = ...) -> None: ...

class ClientPlan(_message.Message):
    __slots__ = ("master", "part", "feed_type", "reason")
    MASTER_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    FEED_TYPE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    master: str
    part: _containers.RepeatedCompositeFieldContainer[ClientPart]
    feed_type: _containers.RepeatedScalarFieldContainer[int]
    reason: str
    def __init__(self, master: _Optional[str] = ..., part: _Optional[_Iterable[_Union[ClientPart, _Mapping]]] = ..., feed_type: _Optional[_Iterable[int]] = ..., reason: _Optional[str] = ...) -> None: ...

class ClientPart(_message.Message):
    __slots__ = ("task", "handle", "feed", "fetch", "quiet")
    TASK_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    task: str
    handle: int
    feed: _containers.RepeatedScalarFieldContainer[int]
    fetch: _containers.RepeatedScalarFieldContainer[int]
    quiet: bool
    def __init__(self, task: _Optional[str] = ..., handle: _Optional[int] = ..., feed: _Optional[_Iterable[int]] = ..., fetch: _Optional[_Iterable[int]] = ..., quiet: bool = ...) -> None: ...

class ClientPartition(_message.Message):
    __slots__ = ("session", "number", "handle", "feed", "fetch", "quiet")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    session: str
    number: int
    handle: int
    feed: _containers.RepeatedScalarFieldContainer[str]
    fetch: _containers.RepeatedScalarFieldContainer[str]
    quiet: bool
    def __init__(self, session: _Optional[str] = ..., number: _Optional[int] = ..., handle: _Optional[int] = ..., feed: _Optional[_Iterable[str]] = ..., fetch: _Optional[_Iterable[str]] = ..., quiet: bool = ...) -> None: ...

class LostTask(_message.Message):
    __slots__ = ("task", "incarnation", "code", "message")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    task: str
    incarnation: int
    code: int
    message: str
    def __init__(self, task: _Optional[str] = ..., incarnation: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class CreateWorkerSessionRequest(_message.Message):
    __slots__ = ("session", "isolate", "master_task", "incarnation", "peer", "master_incarnation", "job")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ISOLATE_FIELD_NUMBER: _ClassVar[int]
    MASTER_TASK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    MASTER_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    session: str
    isolate: bool
    master_task: str
    incarnation: int
    peer: _containers.RepeatedCompositeFieldContainer[Peer]
    master_incarnation: int
    job: str
    def __init__(self, session: _Optional[str] = ..., isolate: bool = ..., master_task: _Optional[str] = ..., incarnation: _Optional[int] = ..., peer: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., master_incarnation: _Optional[int] = ..., job: _Optional[str] = ...) -> None: ...

class CreateWorkerSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteWorkerSessionRequest(_message.Message):
    __slots__ = ("session", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: str
    reason: str
    def __init__(self, session: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteWorkerSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RegisterPartitionRequest(_message.Message):
    __slots__ = ("session", "graph", "rank", "partial", "graph_key")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    GRAPH_KEY_FIELD_NUMBER: _ClassVar[int]
    session: str
    graph: _graph_pb2.GraphDef
    rank: _containers.RepeatedScalarFieldContainer[int]
    partial: bool
    graph_key: int
    def __init__(self, session: _Optional[str] = ..., graph: _Optional[_Union[_graph_pb2.GraphDef, _Mapping]] = ..., rank: _Optional[_Iterable[int]] = ..., partial: bool = ..., graph_key: _Optional[int] = ...) -> None: ...

class RegisterPartitionResponse(_message.Message):
    __slots__ = ("handle",)
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    handle: int
    def __init__(self, handle: _Optional[int] = ...) -> None: ...

class DeregisterPartitionRequest(_message.Message):
    __slots__ = ("session", "handle")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    session: str
    handle: int
    def __init__(self, session: _Optional[str] = ..., handle: _Optional[int] = ...) -> None: ...

class DeregisterPartitionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearContainersRequest(_message.Message):
    __slots__ = ("container", "job")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    container: _containers.RepeatedScalarFieldContainer[str]
    job: str
    def __init__(self, container: _Optional[_Iterable[str]] = ..., job: _Optional[str] = ...) -> None: ...

class ClearContainersResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StepReport(_message.Message):
    __slots__ = ("code", "message", "derived", "step_stats", "partition_graph")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DERIVED_FIELD_NUMBER: _ClassVar[int]
    STEP_STATS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_GRAPH_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    derived: bool
    step_stats: _stats_pb2.StepStats
    partition_graph: _containers.RepeatedCompositeFieldContainer[_graph_pb2.GraphDef]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., derived: bool = ..., step_stats: _Optional[_Union[_stats_pb2.StepStats, _Mapping]] = ..., partition_graph: _Optional[_Iterable[_Union[_graph_pb2.GraphDef, _Mapping]]] = ...) -> None: ...

class CollectiveMessage(_message.Message):
    __slots__ = ("join_group", "group_ready", "join_instance", "instance_ready", "end_group", "leave_group", "ask_step", "step_known", "links_seen", "pause", "paused", "reroute")
    JOIN_GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUP_READY_FIELD_NUMBER: _ClassVar[int]
    JOIN_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_READY_FIELD_NUMBER: _ClassVar[int]
    END_GROUP_FIELD_NUMBER: _ClassVar[int]
    LEAVE_GROUP_FIELD_NUMBER: _ClassVar[int]
    ASK_STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_KNOWN_FIELD_NUMBER: _ClassVar[int]
    LINKS_SEEN_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    REROUTE_FIELD_NUMBER: _ClassVar[int]
    join_group: JoinGroup
    group_ready: GroupReady
    join_instance: JoinInstance
    instance_ready: InstanceReady
    end_group: EndGroup
    leave_group: LeaveGroup
    ask_step: AskStep
    step_known: StepKnown
    links_seen: LinksSeen
    pause: Pause
    paused: Paused
    reroute: Reroute
    def __init__(self, join_group: _Optional[_Union[JoinGroup, _Mapping]] = ..., group_ready: _Optional[_Union[GroupReady, _Mapping]] = ..., join_instance: _Optional[_Union[JoinInstance, _Mapping]] = ..., instance_ready: _Optional[_Union[InstanceReady, _Mapping]] = ..., end_group: _Optional[_Union[EndGroup, _Mapping]] = ..., leave_group: _Optional[_Union[LeaveGroup, _Mapping]] = ..., ask_step: _Optional[_Union[AskStep, _Mapping]] = ..., step_known: _Optional[_Union[StepKnown, _Mapping]] = ..., links_seen: _Optional[_Union[LinksSeen, _Mapping]] = ..., pause: _Optional[_Union[Pause, _Mapping]] = ..., paused: _Optional[_Union[Paused, _Mapping]] = ..., reroute: _Optional[_Union[Reroute, _Mapping]] = ...) -> None: ...

class JoinGroup(_message.Message):
    __slots__ = ("request", "job", "group_key", "group_size", "device", "incarnation", "place", "standing")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    request: int
    job: str
    group_key: int
    group_size: int
    device: str
    incarnation: int
    place: int
    standing: Standing
    def __init__(self, request: _Optional[int] = ..., job: _Optional[str] = ..., group_key: _Optional[int] = ..., group_size: _Optional[int] = ..., device: _Optional[str] = ..., incarnation: _Optional[int] = ..., place: _Optional[int] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ...) -> None: ...

class Standing(_message.Message):
    __slots__ = ("host", "cores", "rack", "link")
    HOST_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    host: int
    cores: int
    rack: int
    link: _containers.RepeatedCompositeFieldContainer[LinkRate]
    def __init__(self, host: _Optional[int] = ..., cores: _Optional[int] = ..., rack: _Optional[int] = ..., link: _Optional[_Iterable[_Union[LinkRate, _Mapping]]] = ...) -> None: ...

class LinkRate(_message.Message):
    __slots__ = ("task", "bytes_s")
    TASK_FIELD_NUMBER: _ClassVar[int]
    BYTES_S_FIELD_NUMBER: _ClassVar[int]
    task: str
    bytes_s: float
    def __init__(self, task: _Optional[str] = ..., bytes_s: _Optional[float] = ...) -> None: ...

class GroupReady(_message.Message):
    __slots__ = ("request", "communicator", "member", "code", "message", "route")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    request: int
    communicator: int
    member: _containers.RepeatedCompositeFieldContainer[GroupMember]
    code: int
    message: str
    route: Route
    def __init__(self, request: _Optional[int] = ..., communicator: _Optional[int] = ..., member: _Optional[_Iterable[_Union[GroupMember, _Mapping]]] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., route: _Optional[_Union[Route, _Mapping]] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("place", "rack", "bytes_s", "slowest", "along", "between")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    BYTES_S_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_FIELD_NUMBER: _ClassVar[int]
    ALONG_FIELD_NUMBER: _ClassVar[int]
    BETWEEN_FIELD_NUMBER: _ClassVar[int]
    place: _containers.RepeatedScalarFieldContainer[int]
    rack: _containers.RepeatedScalarFieldContainer[int]
    bytes_s: float
    slowest: float
    along: float
    between: float
    def __init__(self, place: _Optional[_Iterable[int]] = ..., rack: _Optional[_Iterable[int]] = ..., bytes_s: _Optional[float] = ..., slowest: _Optional[float] = ..., along: _Optional[float] = ..., between: _Optional[float] = ...) -> None: ...

class LinksSeen(_message.Message):
    __slots__ = ("communicator", "link")
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    communicator: int
    link: _containers.RepeatedCompositeFieldContainer[LinkRate]
    def __init__(self, communicator: _Optional[int] = ..., link: _Optional[_Iterable[_Union[LinkRate, _Mapping]]] = ...) -> None: ...

class Pause(_message.Message):
    __slots__ = ("communicator", "turn")
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    communicator: int
    turn: int
    def __init__(self, communicator: _Optional[int] = ..., turn: _Optional[int] = ...) -> None: ...

class Paused(_message.Message):
    __slots__ = ("communicator", "turn", "begun")
    class BegunEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    communicator: int
    turn: int
    begun: _containers.ScalarMap[int, int]
    def __init__(self, communicator: _Optional[int] = ..., turn: _Optional[int] = ..., begun: _Optional[_Mapping[int, int]] = ...) -> None: ...

class Reroute(_message.Message):
    __slots__ = ("communicator", "turn", "route", "first")
    class FirstEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    communicator: int
    turn: int
    route: Route
    first: _containers.ScalarMap[int, int]
    def __init__(self, communicator: _Optional[int] = ..., turn: _Optional[int] = ..., route: _Optional[_Union[Route, _Mapping]] = ..., first: _Optional[_Mapping[int, int]] = ...) -> None: ...

class GroupMember(_message.Message):
    __slots__ = ("device", "incarnation", "is_foreign", "standing")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    IS_FOREIGN_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    device: str
    incarnation: int
    is_foreign: bool
    standing: Standing
    def __init__(self, device: _Optional[str] = ..., incarnation: _Optional[int] = ..., is_foreign: bool = ..., standing: _Optional[_Union[Standing, _Mapping]] = ...) -> None: ...

class JoinInstance(_message.Message):
    __slots__ = ("request", "communicator", "instance_key", "device", "what", "is_source")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_KEY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    IS_SOURCE_FIELD_NUMBER: _ClassVar[int]
    request: int
    communicator: int
    instance_key: int
    device: str
    what: str
    is_source: bool
    def __init__(self, request: _Optional[int] = ..., communicator: _Optional[int] = ..., instance_key: _Optional[int] = ..., device: _Optional[str] = ..., what: _Optional[str] = ..., is_source: bool = ...) -> None: ...

class InstanceReady(_message.Message):
    __slots__ = ("request", "source", "code", "message")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    request: int
    source: int
    code: int
    message: str
    def __init__(self, request: _Optional[int] = ..., source: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class EndGroup(_message.Message):
    __slots__ = ("communicator", "code", "message", "done")
    class DoneEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    COMMUNICATOR_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    communicator: int
    code: int
    message: str
    done: _containers.ScalarMap[int, int]
    def __init__(self, communicator: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., done: _Optional[_Mapping[int, int]] = ...) -> None: ...

class AskStep(_message.Message):
    __slots__ = ("request", "step", "graph_key", "what")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    GRAPH_KEY_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    request: int
    step: int
    graph_key: int
    what: str
    def __init__(self, request: _Optional[int] = ..., step: _Optional[int] = ..., graph_key: _Optional[int] = ..., what: _Optional[str] = ...) -> None: ...

class StepKnown(_message.Message):
    __slots__ = ("request", "step_id", "code", "message")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    request: int
    step_id: int
    code: int
    message: str
    def __init__(self, request: _Optional[int] = ..., step_id: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class LeaveGroup(_message.Message):
    __slots__ = ("job", "group_key", "device")
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUP_KEY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    job: str
    group_key: int
    device: str
    def __init__(self, job: _Optional[str] = ..., group_key: _Optional[int] = ..., device: _Optional[str] = ...) -> None: ...
