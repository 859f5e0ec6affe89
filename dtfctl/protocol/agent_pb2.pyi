from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CertifyRequest(_message.Message):
    __slots__ = ("authority", "certificates", "tasks", "former")
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    FORMER_FIELD_NUMBER: _ClassVar[int]
    authority: bytes
    certificates: _containers.RepeatedCompositeFieldContainer[Certificate]
    tasks: _containers.RepeatedScalarFieldContainer[str]
    former: bytes
    def __init__(self, authority: _Optional[bytes] = ..., certificates: _Optional[_Iterable[_Union[Certificate, _Mapping]]] = ..., tasks: _Optional[_Iterable[str]] = ..., former: _Optional[bytes] = ...) -> None: ...

class Certificate(_message.Message):
    __slots__ = ("name", "cert", "key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CERT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    cert: bytes
    key: bytes
    def __init__(self, name: _Optional[str] = ..., cert: _Optional[bytes] = ..., key: _Optional[bytes] = ...) -> None: ...

class Certified(_message.Message):
    __slots__ = ("until",)
    class UntilEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    until: _containers.ScalarMap[str, float]
    def __init__(self, until: _Optional[_Mapping[str, float]] = ...) -> None: ...

class RestartRules(_message.Message):
    __slots__ = ("when", "attempts", "within_s", "first_s", "then_s", "factor", "max_s", "jitter", "healthy_after_s", "never_exit", "only_exit", "limited", "never_log", "together")
    WHEN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_S_FIELD_NUMBER: _ClassVar[int]
    FIRST_S_FIELD_NUMBER: _ClassVar[int]
    THEN_S_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_S_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    NEVER_EXIT_FIELD_NUMBER: _ClassVar[int]
    ONLY_EXIT_FIELD_NUMBER: _ClassVar[int]
    LIMITED_FIELD_NUMBER: _ClassVar[int]
    NEVER_LOG_FIELD_NUMBER: _ClassVar[int]
    TOGETHER_FIELD_NUMBER: _ClassVar[int]
    when: str
    attempts: int
    within_s: float
    first_s: float
    then_s: float
    factor: float
    max_s: float
    jitter: float
    healthy_after_s: float
    never_exit: _containers.RepeatedScalarFieldContainer[int]
    only_exit: _containers.RepeatedScalarFieldContainer[int]
    limited: bool
    never_log: _containers.RepeatedScalarFieldContainer[str]
    together: bool
    def __init__(self, when: _Optional[str] = ..., attempts: _Optional[int] = ..., within_s: _Optional[float] = ..., first_s: _Optional[float] = ..., then_s: _Optional[float] = ..., factor: _Optional[float] = ..., max_s: _Optional[float] = ..., jitter: _Optional[float] = ..., healthy_after_s: _Optional[float] = ..., never_exit: _Optional[_Iterable[int]] = ..., only_exit: _Optional[_Iterable[int]] = ..., limited: bool = ..., never_log: _Optional[_Iterable[str]] = ..., together: bool = ...) -> None: ...

class HealthRules(_message.Message):
    __slots__ = ("beat_s", "suspect_phi", "down_phi", "pause_s", "down_after_s", "busy_limit_s", "startup_s", "progress_s")
    BEAT_S_FIELD_NUMBER: _ClassVar[int]
    SUSPECT_PHI_FIELD_NUMBER: _ClassVar[int]
    DOWN_PHI_FIELD_NUMBER: _ClassVar[int]
    PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    DOWN_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    BUSY_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    STARTUP_S_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_S_FIELD_NUMBER: _ClassVar[int]
    beat_s: float
    suspect_phi: float
    down_phi: float
    pause_s: float
    down_after_s: float
    busy_limit_s: float
    startup_s: float
    progress_s: float
    def __init__(self, beat_s: _Optional[float] = ..., suspect_phi: _Optional[float] = ..., down_phi: _Optional[float] = ..., pause_s: _Optional[float] = ..., down_after_s: _Optional[float] = ..., busy_limit_s: _Optional[float] = ..., startup_s: _Optional[float] = ..., progress_s: _Optional[float] = ...) -> None: ...

class LogRules(_message.Message):
    __slots__ = ("rotate_bytes", "keep", "bytes_per_s", "folder")
    ROTATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    rotate_bytes: int
    keep: int
    bytes_per_s: int
    folder: str
    def __init__(self, rotate_bytes: _Optional[int] = ..., keep: _Optional[int] = ..., bytes_per_s: _Optional[int] = ..., folder: _Optional[str] = ...) -> None: ...

class TaskOrder(_message.Message):
    __slots__ = ("job", "index", "run", "incarnation_floor", "restart_request", "env", "gpus", "memory_bytes", "first_port", "last_port", "grace_s", "now", "earlier_failures")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FLOOR_FIELD_NUMBER: _ClassVar[int]
    RESTART_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_PORT_FIELD_NUMBER: _ClassVar[int]
    LAST_PORT_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    job: str
    index: int
    run: bool
    incarnation_floor: int
    restart_request: int
    env: _containers.ScalarMap[str, str]
    gpus: int
    memory_bytes: int
    first_port: int
    last_port: int
    grace_s: float
    now: bool
    earlier_failures: int
    def __init__(self, job: _Optional[str] = ..., index: _Optional[int] = ..., run: bool = ..., incarnation_floor: _Optional[int] = ..., restart_request: _Optional[int] = ..., env: _Optional[_Mapping[str, str]] = ..., gpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., first_port: _Optional[int] = ..., last_port: _Optional[int] = ..., grace_s: _Optional[float] = ..., now: bool = ..., earlier_failures: _Optional[int] = ...) -> None: ...

class Wheel(_message.Message):
    __slots__ = ("name", "sha256", "own", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    own: bool
    kind: str
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., own: bool = ..., kind: _Optional[str] = ...) -> None: ...

class Packages(_message.Message):
    __slots__ = ("lines", "constraints", "options", "requires_python", "wheels", "complete")
    LINES_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_PYTHON_FIELD_NUMBER: _ClassVar[int]
    WHEELS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedScalarFieldContainer[str]
    constraints: _containers.RepeatedScalarFieldContainer[str]
    options: _containers.RepeatedScalarFieldContainer[str]
    requires_python: str
    wheels: _containers.RepeatedCompositeFieldContainer[Wheel]
    complete: bool
    def __init__(self, lines: _Optional[_Iterable[str]] = ..., constraints: _Optional[_Iterable[str]] = ..., options: _Optional[_Iterable[str]] = ..., requires_python: _Optional[str] = ..., wheels: _Optional[_Iterable[_Union[Wheel, _Mapping]]] = ..., complete: bool = ...) -> None: ...

class JobNeeds(_message.Message):
    __slots__ = ("tree_sha256", "program", "packages")
    TREE_SHA256_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    tree_sha256: str
    program: str
    packages: Packages
    def __init__(self, tree_sha256: _Optional[str] = ..., program: _Optional[str] = ..., packages: _Optional[_Union[Packages, _Mapping]] = ...) -> None: ...

class ClientOrder(_message.Message):
    __slots__ = ("job_id", "job", "index", "run", "chief", "command", "env", "cwd", "restart", "grace_s", "script", "script_sha256", "args", "slot", "generation", "ports", "first_port", "last_port", "needs_task", "gpus", "view", "remapped", "needs", "job_uid", "memory_bytes", "cpus", "gpu_count")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ViewEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    CHIEF_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_SHA256_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_PORT_FIELD_NUMBER: _ClassVar[int]
    LAST_PORT_FIELD_NUMBER: _ClassVar[int]
    NEEDS_TASK_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    REMAPPED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    JOB_UID_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_COUNT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job: str
    index: int
    run: bool
    chief: bool
    command: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    cwd: str
    restart: RestartRules
    grace_s: float
    script: str
    script_sha256: str
    args: _containers.RepeatedScalarFieldContainer[str]
    slot: str
    generation: int
    ports: int
    first_port: int
    last_port: int
    needs_task: bool
    gpus: str
    view: _containers.ScalarMap[str, str]
    remapped: bool
    needs: JobNeeds
    job_uid: str
    memory_bytes: int
    cpus: float
    gpu_count: int
    def __init__(self, job_id: _Optional[str] = ..., job: _Optional[str] = ..., index: _Optional[int] = ..., run: bool = ..., chief: bool = ..., command: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., cwd: _Optional[str] = ..., restart: _Optional[_Union[RestartRules, _Mapping]] = ..., grace_s: _Optional[float] = ..., script: _Optional[str] = ..., script_sha256: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., slot: _Optional[str] = ..., generation: _Optional[int] = ..., ports: _Optional[int] = ..., first_port: _Optional[int] = ..., last_port: _Optional[int] = ..., needs_task: bool = ..., gpus: _Optional[str] = ..., view: _Optional[_Mapping[str, str]] = ..., remapped: bool = ..., needs: _Optional[_Union[JobNeeds, _Mapping]] = ..., job_uid: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., cpus: _Optional[float] = ..., gpu_count: _Optional[int] = ...) -> None: ...

class FolderPeer(_message.Message):
    __slots__ = ("host", "address")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    host: str
    address: str
    def __init__(self, host: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class FolderOrder(_message.Message):
    __slots__ = ("path", "job_id", "hold", "peers", "gates", "all_peers")
    PATH_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    GATES_FIELD_NUMBER: _ClassVar[int]
    ALL_PEERS_FIELD_NUMBER: _ClassVar[int]
    path: str
    job_id: str
    hold: bool
    peers: _containers.RepeatedCompositeFieldContainer[FolderPeer]
    gates: _containers.RepeatedScalarFieldContainer[str]
    all_peers: bool
    def __init__(self, path: _Optional[str] = ..., job_id: _Optional[str] = ..., hold: bool = ..., peers: _Optional[_Iterable[_Union[FolderPeer, _Mapping]]] = ..., gates: _Optional[_Iterable[str]] = ..., all_peers: bool = ...) -> None: ...

class FolderReport(_message.Message):
    __slots__ = ("path", "whole", "in_step", "files", "bytes", "problem")
    PATH_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    IN_STEP_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    path: str
    whole: _containers.RepeatedScalarFieldContainer[str]
    in_step: bool
    files: int
    bytes: int
    problem: str
    def __init__(self, path: _Optional[str] = ..., whole: _Optional[_Iterable[str]] = ..., in_step: bool = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class FolderEntry(_message.Message):
    __slots__ = ("path", "version", "size", "sha256", "mtime_ns", "deleted")
    PATH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    MTIME_NS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    path: str
    version: int
    size: int
    sha256: str
    mtime_ns: int
    deleted: bool
    def __init__(self, path: _Optional[str] = ..., version: _Optional[int] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., mtime_ns: _Optional[int] = ..., deleted: bool = ...) -> None: ...

class ListFilesRequest(_message.Message):
    __slots__ = ("path", "tag", "clock")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    path: str
    tag: str
    clock: int
    def __init__(self, path: _Optional[str] = ..., tag: _Optional[str] = ..., clock: _Optional[int] = ...) -> None: ...

class FileList(_message.Message):
    __slots__ = ("tag", "entries", "age_s")
    TAG_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    tag: str
    entries: _containers.RepeatedCompositeFieldContainer[FolderEntry]
    age_s: float
    def __init__(self, tag: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[FolderEntry, _Mapping]]] = ..., age_s: _Optional[float] = ...) -> None: ...

class ReadFileRequest(_message.Message):
    __slots__ = ("folder", "path", "sha256", "offset")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    folder: str
    path: str
    sha256: str
    offset: int
    def __init__(self, folder: _Optional[str] = ..., path: _Optional[str] = ..., sha256: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class FilePiece(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class Peer(_message.Message):
    __slots__ = ("job", "index", "address", "incarnation", "up", "reason")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job: str
    index: int
    address: str
    incarnation: int
    up: bool
    reason: str
    def __init__(self, job: _Optional[str] = ..., index: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ..., up: bool = ..., reason: _Optional[str] = ...) -> None: ...

class HostOrders(_message.Message):
    __slots__ = ("cluster", "epoch", "revision", "tasks", "clients", "peers", "expected", "task_command", "restart", "health", "logs", "tls", "transport", "encrypt", "jobs", "bad_host_log", "lease_s", "folders", "base")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    TASK_COMMAND_FIELD_NUMBER: _ClassVar[int]
    RESTART_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    TLS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    ENCRYPT_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    BAD_HOST_LOG_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    epoch: int
    revision: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskOrder]
    clients: _containers.RepeatedCompositeFieldContainer[ClientOrder]
    peers: _containers.RepeatedCompositeFieldContainer[Peer]
    expected: _containers.RepeatedScalarFieldContainer[str]
    task_command: _containers.RepeatedScalarFieldContainer[str]
    restart: RestartRules
    health: HealthRules
    logs: LogRules
    tls: bool
    transport: str
    encrypt: bool
    jobs: _containers.RepeatedScalarFieldContainer[str]
    bad_host_log: _containers.RepeatedScalarFieldContainer[str]
    lease_s: float
    folders: _containers.RepeatedCompositeFieldContainer[FolderOrder]
    base: int
    def __init__(self, cluster: _Optional[str] = ..., epoch: _Optional[int] = ..., revision: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskOrder, _Mapping]]] = ..., clients: _Optional[_Iterable[_Union[ClientOrder, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[Peer, _Mapping]]] = ..., expected: _Optional[_Iterable[str]] = ..., task_command: _Optional[_Iterable[str]] = ..., restart: _Optional[_Union[RestartRules, _Mapping]] = ..., health: _Optional[_Union[HealthRules, _Mapping]] = ..., logs: _Optional[_Union[LogRules, _Mapping]] = ..., tls: bool = ..., transport: _Optional[str] = ..., encrypt: bool = ..., jobs: _Optional[_Iterable[str]] = ..., bad_host_log: _Optional[_Iterable[str]] = ..., lease_s: _Optional[float] = ..., folders: _Optional[_Iterable[_Union[FolderOrder, _Mapping]]] = ..., base: _Optional[int] = ...) -> None: ...

class Script(_message.Message):
    __slots__ = ("name", "sha256", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class BlobPiece(_message.Message):
    __slots__ = ("sha256", "size", "offset", "data")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    size: int
    offset: int
    data: bytes
    def __init__(self, sha256: _Optional[str] = ..., size: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class BlobHeld(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class ExamineRequest(_message.Message):
    __slots__ = ("host", "python", "packages")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    host: str
    python: str
    packages: Packages
    def __init__(self, host: _Optional[str] = ..., python: _Optional[str] = ..., packages: _Optional[_Union[Packages, _Mapping]] = ...) -> None: ...

class Examination(_message.Message):
    __slots__ = ("facts_json", "ready", "installs", "index", "have")
    FACTS_JSON_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    INSTALLS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    facts_json: str
    ready: bool
    installs: bool
    index: bool
    have: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, facts_json: _Optional[str] = ..., ready: bool = ..., installs: bool = ..., index: bool = ..., have: _Optional[_Iterable[str]] = ...) -> None: ...

class Applied(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("epoch", "revision")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    revision: int
    def __init__(self, epoch: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class KeepRequest(_message.Message):
    __slots__ = ("epoch", "revision", "base", "entries", "removed")
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    revision: int
    base: int
    entries: _containers.ScalarMap[str, str]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, epoch: _Optional[int] = ..., revision: _Optional[int] = ..., base: _Optional[int] = ..., entries: _Optional[_Mapping[str, str]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecallReply(_message.Message):
    __slots__ = ("copy", "state", "boot", "happening")
    COPY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    HAPPENING_FIELD_NUMBER: _ClassVar[int]
    copy: bytes
    state: bytes
    boot: str
    happening: int
    def __init__(self, copy: _Optional[bytes] = ..., state: _Optional[bytes] = ..., boot: _Optional[str] = ..., happening: _Optional[int] = ...) -> None: ...

class ProbeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProbeReply(_message.Message):
    __slots__ = ("problem",)
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    problem: str
    def __init__(self, problem: _Optional[str] = ...) -> None: ...

class SharedRequest(_message.Message):
    __slots__ = ("folder", "token", "step")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    folder: str
    token: str
    step: str
    def __init__(self, folder: _Optional[str] = ..., token: _Optional[str] = ..., step: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("epoch", "boot", "happening")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    HAPPENING_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    boot: str
    happening: int
    def __init__(self, epoch: _Optional[int] = ..., boot: _Optional[str] = ..., happening: _Optional[int] = ...) -> None: ...

class ProgressLine(_message.Message):
    __slots__ = ("step", "total", "metrics", "time")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    step: int
    total: int
    metrics: _containers.ScalarMap[str, float]
    time: float
    def __init__(self, step: _Optional[int] = ..., total: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., time: _Optional[float] = ...) -> None: ...

class TaskReport(_message.Message):
    __slots__ = ("job", "index", "state", "health", "pid", "address", "incarnation", "restarts", "uptime_s", "cpu_percent", "rss_bytes", "steps", "retry_in_s", "exit_code", "last_error", "last_lines", "restart_handled", "transport", "blas", "silence_s", "unreachable", "faults")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    CPU_PERCENT_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    RETRY_IN_S_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    RESTART_HANDLED_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    BLAS_FIELD_NUMBER: _ClassVar[int]
    SILENCE_S_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    job: str
    index: int
    state: str
    health: str
    pid: int
    address: str
    incarnation: int
    restarts: int
    uptime_s: float
    cpu_percent: float
    rss_bytes: int
    steps: int
    retry_in_s: float
    exit_code: int
    last_error: str
    last_lines: _containers.RepeatedScalarFieldContainer[str]
    restart_handled: int
    transport: str
    blas: str
    silence_s: float
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    faults: int
    def __init__(self, job: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[str] = ..., health: _Optional[str] = ..., pid: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ..., restarts: _Optional[int] = ..., uptime_s: _Optional[float] = ..., cpu_percent: _Optional[float] = ..., rss_bytes: _Optional[int] = ..., steps: _Optional[int] = ..., retry_in_s: _Optional[float] = ..., exit_code: _Optional[int] = ..., last_error: _Optional[str] = ..., last_lines: _Optional[_Iterable[str]] = ..., restart_handled: _Optional[int] = ..., transport: _Optional[str] = ..., blas: _Optional[str] = ..., silence_s: _Optional[float] = ..., unreachable: _Optional[_Iterable[str]] = ..., faults: _Optional[int] = ...) -> None: ...

class ClientReport(_message.Message):
    __slots__ = ("job_id", "job", "index", "state", "pid", "exit_code", "restarts", "last_error", "last_lines", "progress", "generation", "held", "addresses", "rss_bytes", "limits", "out_of_memory")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    job: str
    index: int
    state: str
    pid: int
    exit_code: int
    restarts: int
    last_error: str
    last_lines: _containers.RepeatedScalarFieldContainer[str]
    progress: ProgressLine
    generation: int
    held: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    rss_bytes: int
    limits: str
    out_of_memory: bool
    def __init__(self, job_id: _Optional[str] = ..., job: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[str] = ..., pid: _Optional[int] = ..., exit_code: _Optional[int] = ..., restarts: _Optional[int] = ..., last_error: _Optional[str] = ..., last_lines: _Optional[_Iterable[str]] = ..., progress: _Optional[_Union[ProgressLine, _Mapping]] = ..., generation: _Optional[int] = ..., held: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., rss_bytes: _Optional[int] = ..., limits: _Optional[str] = ..., out_of_memory: bool = ...) -> None: ...

class Happening(_message.Message):
    __slots__ = ("number", "time", "kind", "subject", "reason", "incarnation", "failure")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    number: int
    time: float
    kind: str
    subject: str
    reason: str
    incarnation: int
    failure: bool
    def __init__(self, number: _Optional[int] = ..., time: _Optional[float] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ..., incarnation: _Optional[int] = ..., failure: bool = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("host", "boot", "pid", "revision", "epoch", "tasks", "clients", "happenings", "cores", "load", "memory_bytes", "memory_free_bytes", "disk_free_bytes", "gpus", "problem", "faults", "address", "folders", "partial")
    HOST_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    HAPPENINGS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    host: str
    boot: str
    pid: int
    revision: int
    epoch: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskReport]
    clients: _containers.RepeatedCompositeFieldContainer[ClientReport]
    happenings: _containers.RepeatedCompositeFieldContainer[Happening]
    cores: int
    load: float
    memory_bytes: int
    memory_free_bytes: int
    disk_free_bytes: int
    gpus: int
    problem: str
    faults: int
    address: str
    folders: _containers.RepeatedCompositeFieldContainer[FolderReport]
    partial: bool
    def __init__(self, host: _Optional[str] = ..., boot: _Optional[str] = ..., pid: _Optional[int] = ..., revision: _Optional[int] = ..., epoch: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskReport, _Mapping]]] = ..., clients: _Optional[_Iterable[_Union[ClientReport, _Mapping]]] = ..., happenings: _Optional[_Iterable[_Union[Happening, _Mapping]]] = ..., cores: _Optional[int] = ..., load: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., memory_free_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., problem: _Optional[str] = ..., faults: _Optional[int] = ..., address: _Optional[str] = ..., folders: _Optional[_Iterable[_Union[FolderReport, _Mapping]]] = ..., partial: bool = ...) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("process", "file", "offset")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    process: str
    file: int
    offset: int
    def __init__(self, process: _Optional[str] = ..., file: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ReadLogsRequest(_message.Message):
    __slots__ = ("positions", "max_bytes", "wait_s", "tail")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[LogPosition]
    max_bytes: int
    wait_s: float
    tail: int
    def __init__(self, positions: _Optional[_Iterable[_Union[LogPosition, _Mapping]]] = ..., max_bytes: _Optional[int] = ..., wait_s: _Optional[float] = ..., tail: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("next", "data", "at_end")
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    next: LogPosition
    data: bytes
    at_end: bool
    def __init__(self, next: _Optional[_Union[LogPosition, _Mapping]] = ..., data: _Optional[bytes] = ..., at_end: bool = ...) -> None: ...

class ReadLogsReply(_message.Message):
    __slots__ = ("chunks",)
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[LogChunk]
    def __init__(self, chunks: _Optional[_Iterable[_Union[LogChunk, _Mapping]]] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("grace_s", "epoch", "delete_logs")
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DELETE_LOGS_FIELD_NUMBER: _ClassVar[int]
    grace_s: float
    epoch: int
    delete_logs: bool
    def __init__(self, grace_s: _Optional[float] = ..., epoch: _Optional[int] = ..., delete_logs: bool = ...) -> None: ...

class TerminalSize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class ExecStart(_message.Message):
    __slots__ = ("host", "process", "command", "terminal", "size", "term", "folder")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    host: str
    process: str
    command: _containers.RepeatedScalarFieldContainer[str]
    terminal: bool
    size: TerminalSize
    term: str
    folder: str
    def __init__(self, host: _Optional[str] = ..., process: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., terminal: bool = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ..., term: _Optional[str] = ..., folder: _Optional[str] = ...) -> None: ...

class ExecInput(_message.Message):
    __slots__ = ("start", "data", "end", "size", "signal")
    START_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    start: ExecStart
    data: bytes
    end: bool
    size: TerminalSize
    signal: int
    def __init__(self, start: _Optional[_Union[ExecStart, _Mapping]] = ..., data: _Optional[bytes] = ..., end: bool = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ..., signal: _Optional[int] = ...) -> None: ...

class ExecOutput(_message.Message):
    __slots__ = ("out", "err", "exit_code")
    OUT_FIELD_NUMBER: _ClassVar[int]
    ERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    out: bytes
    err: bytes
    exit_code: int
    def __init__(self, out: _Optional[bytes] = ..., err: _Optional[bytes] = ..., exit_code: _Optional[int] = ...) -> None: ...

class FileHead(_message.Message):
    __slots__ = ("path", "kind", "mode", "size", "mtime", "link")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MTIME_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: str
    mode: int
    size: int
    mtime: float
    link: str
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[str] = ..., mode: _Optional[int] = ..., size: _Optional[int] = ..., mtime: _Optional[float] = ..., link: _Optional[str] = ...) -> None: ...

class FilePart(_message.Message):
    __slots__ = ("total_bytes", "head", "data", "sha256", "skipped", "done")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    head: FileHead
    data: bytes
    sha256: str
    skipped: str
    done: bool
    def __init__(self, total_bytes: _Optional[int] = ..., head: _Optional[_Union[FileHead, _Mapping]] = ..., data: _Optional[bytes] = ..., sha256: _Optional[str] = ..., skipped: _Optional[str] = ..., done: bool = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("host", "process", "path", "folder")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    host: str
    process: str
    path: str
    folder: str
    def __init__(self, host: _Optional[str] = ..., process: _Optional[str] = ..., path: _Optional[str] = ..., folder: _Optional[str] = ...) -> None: ...

class StoreStart(_message.Message):
    __slots__ = ("host", "process", "path", "name", "folder")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    host: str
    process: str
    path: str
    name: str
    folder: str
    def __init__(self, host: _Optional[str] = ..., process: _Optional[str] = ..., path: _Optional[str] = ..., name: _Optional[str] = ..., folder: _Optional[str] = ...) -> None: ...

class StoreInput(_message.Message):
    __slots__ = ("start", "part")
    START_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    start: StoreStart
    part: FilePart
    def __init__(self, start: _Optional[_Union[StoreStart, _Mapping]] = ..., part: _Optional[_Union[FilePart, _Mapping]] = ...) -> None: ...

class Stored(_message.Message):
    __slots__ = ("path", "files", "bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    files: int
    bytes: int
    def __init__(self, path: _Optional[str] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("index", "name", "busy_percent", "memory_used_bytes", "memory_bytes")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUSY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    index: int
    name: str
    busy_percent: float
    memory_used_bytes: int
    memory_bytes: int
    def __init__(self, index: _Optional[int] = ..., name: _Optional[str] = ..., busy_percent: _Optional[float] = ..., memory_used_bytes: _Optional[int] = ..., memory_bytes: _Optional[int] = ...) -> None: ...

class InspectRequest(_message.Message):
    __slots__ = ("host", "now")
    HOST_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    host: str
    now: float
    def __init__(self, host: _Optional[str] = ..., now: _Optional[float] = ...) -> None: ...

class Inspection(_message.Message):
    __slots__ = ("version", "python", "time", "open_files", "processes", "disk_free_bytes", "disk_total_bytes", "inodes_free", "certificate_until", "loose_files", "memory_bytes", "system", "gpus")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    OPEN_FILES_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    INODES_FREE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    LOOSE_FILES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    version: str
    python: str
    time: float
    open_files: int
    processes: int
    disk_free_bytes: int
    disk_total_bytes: int
    inodes_free: int
    certificate_until: float
    loose_files: _containers.RepeatedScalarFieldContainer[str]
    memory_bytes: int
    system: str
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    def __init__(self, version: _Optional[str] = ..., python: _Optional[str] = ..., time: _Optional[float] = ..., open_files: _Optional[int] = ..., processes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., inodes_free: _Optional[int] = ..., certificate_until: _Optional[float] = ..., loose_files: _Optional[_Iterable[str]] = ..., memory_bytes: _Optional[int] = ..., system: _Optional[str] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ...) -> None: ...
