from dtfctl.protocol import agent_pb2 as _agent_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CertificatesRequest(_message.Message):
    __slots__ = ("renew",)
    RENEW_FIELD_NUMBER: _ClassVar[int]
    renew: bool
    def __init__(self, renew: bool = ...) -> None: ...

class CertificateStatus(_message.Message):
    __slots__ = ("name", "host", "until", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    until: float
    problem: str
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., until: _Optional[float] = ..., problem: _Optional[str] = ...) -> None: ...

class CertificatesReply(_message.Message):
    __slots__ = ("certificates",)
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    certificates: _containers.RepeatedCompositeFieldContainer[CertificateStatus]
    def __init__(self, certificates: _Optional[_Iterable[_Union[CertificateStatus, _Mapping]]] = ...) -> None: ...

class ControllerStatus(_message.Message):
    __slots__ = ("pid", "address", "epoch", "uptime_s", "version")
    PID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    pid: int
    address: str
    epoch: int
    uptime_s: float
    version: str
    def __init__(self, pid: _Optional[int] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., uptime_s: _Optional[float] = ..., version: _Optional[str] = ...) -> None: ...

class ApplyRequest(_message.Message):
    __slots__ = ("spec_json", "task_command", "dry_run", "only", "prune")
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    TASK_COMMAND_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    PRUNE_FIELD_NUMBER: _ClassVar[int]
    spec_json: str
    task_command: _containers.RepeatedScalarFieldContainer[str]
    dry_run: bool
    only: str
    prune: bool
    def __init__(self, spec_json: _Optional[str] = ..., task_command: _Optional[_Iterable[str]] = ..., dry_run: bool = ..., only: _Optional[str] = ..., prune: bool = ...) -> None: ...

class ApplyReply(_message.Message):
    __slots__ = ("changes", "event", "tasks")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedScalarFieldContainer[str]
    event: int
    tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changes: _Optional[_Iterable[str]] = ..., event: _Optional[int] = ..., tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("newer_than", "wait_s")
    NEWER_THAN_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    newer_than: int
    wait_s: float
    def __init__(self, newer_than: _Optional[int] = ..., wait_s: _Optional[float] = ...) -> None: ...

class Progress(_message.Message):
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

class TaskStatus(_message.Message):
    __slots__ = ("job", "index", "state", "health", "host", "pid", "address", "incarnation", "restarts", "uptime_s", "cpu_percent", "rss_bytes", "steps", "retry_in_s", "exit_code", "last_error", "last_lines", "transport", "blas", "faults", "silence_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
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
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    BLAS_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    SILENCE_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    index: int
    state: str
    health: str
    host: str
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
    transport: str
    blas: str
    faults: int
    silence_s: float
    def __init__(self, job: _Optional[str] = ..., index: _Optional[int] = ..., state: _Optional[str] = ..., health: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., address: _Optional[str] = ..., incarnation: _Optional[int] = ..., restarts: _Optional[int] = ..., uptime_s: _Optional[float] = ..., cpu_percent: _Optional[float] = ..., rss_bytes: _Optional[int] = ..., steps: _Optional[int] = ..., retry_in_s: _Optional[float] = ..., exit_code: _Optional[int] = ..., last_error: _Optional[str] = ..., last_lines: _Optional[_Iterable[str]] = ..., transport: _Optional[str] = ..., blas: _Optional[str] = ..., faults: _Optional[int] = ..., silence_s: _Optional[float] = ...) -> None: ...

class HostStatus(_message.Message):
    __slots__ = ("name", "state", "agent_pid", "agent_address", "cores", "load", "memory_bytes", "memory_free_bytes", "disk_free_bytes", "gpus", "tasks", "last_error", "cause", "where", "stage", "note", "through", "faults")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AGENT_PID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    agent_pid: int
    agent_address: str
    cores: int
    load: float
    memory_bytes: int
    memory_free_bytes: int
    disk_free_bytes: int
    gpus: int
    tasks: int
    last_error: str
    cause: str
    where: str
    stage: str
    note: str
    through: str
    faults: int
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., agent_pid: _Optional[int] = ..., agent_address: _Optional[str] = ..., cores: _Optional[int] = ..., load: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., memory_free_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., gpus: _Optional[int] = ..., tasks: _Optional[int] = ..., last_error: _Optional[str] = ..., cause: _Optional[str] = ..., where: _Optional[str] = ..., stage: _Optional[str] = ..., note: _Optional[str] = ..., through: _Optional[str] = ..., faults: _Optional[int] = ...) -> None: ...

class ClientStatus(_message.Message):
    __slots__ = ("name", "host", "state", "pid", "exit_code", "restarts", "last_error", "last_lines", "progress", "task", "address", "rss_bytes", "limits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    state: str
    pid: int
    exit_code: int
    restarts: int
    last_error: str
    last_lines: _containers.RepeatedScalarFieldContainer[str]
    progress: Progress
    task: str
    address: str
    rss_bytes: int
    limits: str
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., state: _Optional[str] = ..., pid: _Optional[int] = ..., exit_code: _Optional[int] = ..., restarts: _Optional[int] = ..., last_error: _Optional[str] = ..., last_lines: _Optional[_Iterable[str]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., task: _Optional[str] = ..., address: _Optional[str] = ..., rss_bytes: _Optional[int] = ..., limits: _Optional[str] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("id", "name", "state", "replication", "script", "args", "submitted", "started", "ended", "exit_code", "reason", "restarts", "checkpoint_dir", "position", "clients", "progress", "framework", "priority", "tasks", "starts", "cpus", "memory", "gpus", "checkpoint", "checkpoint_hosts")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_DIR_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_HOSTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    replication: str
    script: str
    args: _containers.RepeatedScalarFieldContainer[str]
    submitted: float
    started: float
    ended: float
    exit_code: int
    reason: str
    restarts: int
    checkpoint_dir: str
    position: int
    clients: _containers.RepeatedCompositeFieldContainer[ClientStatus]
    progress: Progress
    framework: str
    priority: int
    tasks: _containers.RepeatedScalarFieldContainer[str]
    starts: int
    cpus: float
    memory: int
    gpus: int
    checkpoint: str
    checkpoint_hosts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., replication: _Optional[str] = ..., script: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., submitted: _Optional[float] = ..., started: _Optional[float] = ..., ended: _Optional[float] = ..., exit_code: _Optional[int] = ..., reason: _Optional[str] = ..., restarts: _Optional[int] = ..., checkpoint_dir: _Optional[str] = ..., position: _Optional[int] = ..., clients: _Optional[_Iterable[_Union[ClientStatus, _Mapping]]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., framework: _Optional[str] = ..., priority: _Optional[int] = ..., tasks: _Optional[_Iterable[str]] = ..., starts: _Optional[int] = ..., cpus: _Optional[float] = ..., memory: _Optional[int] = ..., gpus: _Optional[int] = ..., checkpoint: _Optional[str] = ..., checkpoint_hosts: _Optional[_Iterable[str]] = ...) -> None: ...

class ClusterStatus(_message.Message):
    __slots__ = ("name", "created", "controller", "hosts", "tasks", "jobs", "problems", "version", "usable", "settled", "notes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    USABLE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    created: float
    controller: ControllerStatus
    hosts: _containers.RepeatedCompositeFieldContainer[HostStatus]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    problems: _containers.RepeatedScalarFieldContainer[str]
    version: int
    usable: bool
    settled: bool
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., created: _Optional[float] = ..., controller: _Optional[_Union[ControllerStatus, _Mapping]] = ..., hosts: _Optional[_Iterable[_Union[HostStatus, _Mapping]]] = ..., tasks: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ..., jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., problems: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ..., usable: bool = ..., settled: bool = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("script", "args", "name", "env", "replication", "submission_id", "framework", "retries", "resume", "cwd", "priority", "max_time_s", "tasks", "workers", "share", "python", "success", "exit_code_from", "tf_config", "id", "working_dir", "requirements", "extras", "packages", "cpus", "memory", "gpus")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_ID_FIELD_NUMBER: _ClassVar[int]
    FRAMEWORK_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_TIME_S_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FROM_FIELD_NUMBER: _ClassVar[int]
    TF_CONFIG_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    EXTRAS_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    script: str
    args: _containers.RepeatedScalarFieldContainer[str]
    name: str
    env: _containers.ScalarMap[str, str]
    replication: str
    submission_id: str
    framework: str
    retries: int
    resume: str
    cwd: str
    priority: int
    max_time_s: float
    tasks: str
    workers: int
    share: bool
    python: str
    success: str
    exit_code_from: str
    tf_config: str
    id: str
    working_dir: str
    requirements: _containers.RepeatedScalarFieldContainer[str]
    extras: _containers.RepeatedScalarFieldContainer[str]
    packages: str
    cpus: float
    memory: int
    gpus: int
    def __init__(self, script: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., env: _Optional[_Mapping[str, str]] = ..., replication: _Optional[str] = ..., submission_id: _Optional[str] = ..., framework: _Optional[str] = ..., retries: _Optional[int] = ..., resume: _Optional[str] = ..., cwd: _Optional[str] = ..., priority: _Optional[int] = ..., max_time_s: _Optional[float] = ..., tasks: _Optional[str] = ..., workers: _Optional[int] = ..., share: bool = ..., python: _Optional[str] = ..., success: _Optional[str] = ..., exit_code_from: _Optional[str] = ..., tf_config: _Optional[str] = ..., id: _Optional[str] = ..., working_dir: _Optional[str] = ..., requirements: _Optional[_Iterable[str]] = ..., extras: _Optional[_Iterable[str]] = ..., packages: _Optional[str] = ..., cpus: _Optional[float] = ..., memory: _Optional[int] = ..., gpus: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("request", "source", "sha256", "needs")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    request: JobRequest
    source: bytes
    sha256: str
    needs: _agent_pb2.JobNeeds
    def __init__(self, request: _Optional[_Union[JobRequest, _Mapping]] = ..., source: _Optional[bytes] = ..., sha256: _Optional[str] = ..., needs: _Optional[_Union[_agent_pb2.JobNeeds, _Mapping]] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("job_id", "existed")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    existed: bool
    def __init__(self, job_id: _Optional[str] = ..., existed: bool = ...) -> None: ...

class JobsRequest(_message.Message):
    __slots__ = ("ids", "newer_than", "wait_s")
    IDS_FIELD_NUMBER: _ClassVar[int]
    NEWER_THAN_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    newer_than: int
    wait_s: float
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., newer_than: _Optional[int] = ..., wait_s: _Optional[float] = ...) -> None: ...

class JobsReply(_message.Message):
    __slots__ = ("jobs", "version")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    version: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("ids", "grace_s")
    IDS_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    grace_s: float
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., grace_s: _Optional[float] = ...) -> None: ...

class DesireRequest(_message.Message):
    __slots__ = ("selector", "verb", "grace_s")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    selector: str
    verb: str
    grace_s: float
    def __init__(self, selector: _Optional[str] = ..., verb: _Optional[str] = ..., grace_s: _Optional[float] = ...) -> None: ...

class DesireReply(_message.Message):
    __slots__ = ("tasks", "version")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedScalarFieldContainer[str]
    version: int
    def __init__(self, tasks: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ...) -> None: ...

class ScaleRequest(_message.Message):
    __slots__ = ("counts", "dry_run")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    dry_run: bool
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ..., dry_run: bool = ...) -> None: ...

class DesireHostsRequest(_message.Message):
    __slots__ = ("hosts", "verb", "reason")
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    verb: str
    reason: str
    def __init__(self, hosts: _Optional[_Iterable[str]] = ..., verb: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DesireHostsReply(_message.Message):
    __slots__ = ("hosts", "version")
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedScalarFieldContainer[str]
    version: int
    def __init__(self, hosts: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ...) -> None: ...

class LogPosition(_message.Message):
    __slots__ = ("process", "host", "file", "offset", "hold")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    process: str
    host: str
    file: int
    offset: int
    hold: bool
    def __init__(self, process: _Optional[str] = ..., host: _Optional[str] = ..., file: _Optional[int] = ..., offset: _Optional[int] = ..., hold: bool = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("selector", "positions", "tail", "wait_s", "max_bytes")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    selector: str
    positions: _containers.RepeatedCompositeFieldContainer[LogPosition]
    tail: int
    wait_s: float
    max_bytes: int
    def __init__(self, selector: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[LogPosition, _Mapping]]] = ..., tail: _Optional[int] = ..., wait_s: _Optional[float] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("next", "data", "at_end")
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    AT_END_FIELD_NUMBER: _ClassVar[int]
    next: LogPosition
    data: bytes
    at_end: bool
    def __init__(self, next: _Optional[_Union[LogPosition, _Mapping]] = ..., data: _Optional[bytes] = ..., at_end: bool = ...) -> None: ...

class LogsReply(_message.Message):
    __slots__ = ("chunks", "final", "unreachable", "ended")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[LogChunk]
    final: bool
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    ended: bool
    def __init__(self, chunks: _Optional[_Iterable[_Union[LogChunk, _Mapping]]] = ..., final: bool = ..., unreachable: _Optional[_Iterable[str]] = ..., ended: bool = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "time", "kind", "subject", "reason", "incarnation")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    seq: int
    time: float
    kind: str
    subject: str
    reason: str
    incarnation: int
    def __init__(self, seq: _Optional[int] = ..., time: _Optional[float] = ..., kind: _Optional[str] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("after", "since", "wait_s", "limit")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    after: int
    since: float
    wait_s: float
    limit: int
    def __init__(self, after: _Optional[int] = ..., since: _Optional[float] = ..., wait_s: _Optional[float] = ..., limit: _Optional[int] = ...) -> None: ...

class EventsReply(_message.Message):
    __slots__ = ("events", "newest")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    newest: int
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., newest: _Optional[int] = ...) -> None: ...

class DownRequest(_message.Message):
    __slots__ = ("grace_s", "force", "delete_logs")
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    DELETE_LOGS_FIELD_NUMBER: _ClassVar[int]
    grace_s: float
    force: bool
    delete_logs: bool
    def __init__(self, grace_s: _Optional[float] = ..., force: bool = ..., delete_logs: bool = ...) -> None: ...

class DownReply(_message.Message):
    __slots__ = ("problems",)
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, problems: _Optional[_Iterable[str]] = ...) -> None: ...

class SpecReply(_message.Message):
    __slots__ = ("spec_json",)
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    spec_json: str
    def __init__(self, spec_json: _Optional[str] = ...) -> None: ...
