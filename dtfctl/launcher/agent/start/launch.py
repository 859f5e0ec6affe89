"""What a task or a job's process is started with: command, environment, configuration file."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dtfctl import later
from dtfctl.launcher.errors import InternalError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.orders import ClientOrder, HostOrders, TaskOrder, job_scope, task_order
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.host_facts import gpu_list
from dtfctl.values import value

if TYPE_CHECKING:
    from dtfctl.launcher.agent.start.preparations import Prepared
    from dtfctl.launcher.agent.tell.task_socket import TaskSocket
    from dtfctl.launcher.identity.keyring import Keyring

NOT_INHERITED = ("OPENBLAS_CORETYPE", "GRPC_VERBOSITY", "GRPC_ENABLE_FORK_SUPPORT")
"""Settings of the launcher's own processes, or of a build of numpy that would slow the kernels down."""


@value
class TaskConfig:
    """The file whose path is a task's only argument; `dtfctl/task.py` reads it."""

    cluster: Mapping[str, Mapping[int, str]]
    """Job name to index to `host:port`."""
    job: str
    index: int
    incarnation: int
    listen: str
    socket_path: Path
    """Unix socket for clients on this host."""
    control_path: Path
    """Unix datagram socket on which the agent tells about peers."""
    agent_path: Path
    """Unix datagram socket that takes the beats."""
    tls: TlsFiles | None
    state_folder: Path
    beat_s: float
    grace_s: float
    transport: str = "auto"
    encrypt: bool = True


def base_environment(inherited: Mapping[str, str], cores: int, tasks_on_host: int) -> dict[str, str]:
    env = {key: value for key, value in inherited.items() if key not in NOT_INHERITED}
    threads = str(max(1, cores // max(1, tasks_on_host)))
    env.setdefault("OPENBLAS_NUM_THREADS", threads)
    env.setdefault("OMP_NUM_THREADS", threads)
    env["PYTHONUNBUFFERED"] = "1"
    return env


def task_environment(base: Mapping[str, str], order: TaskOrder, gpus: tuple[int, ...] | None) -> dict[str, str]:
    """Make a task's variables; `gpus`: its indices, or None where no task of the cluster asks for any."""
    env = {**base, "DTF_JOB_NAME": order.job, "DTF_TASK_INDEX": str(order.index)}
    # Meant for the user's programs. Every task would compile all of dtfctl, for more than half of its start.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if gpus is not None:
        env["CUDA_VISIBLE_DEVICES"] = gpu_list(gpus)
    return {**env, **_of_this_home(order.env)}


def client_environment(
    base: Mapping[str, str],
    order: ClientOrder,
    addresses: Mapping[str, str],
    target: Path,
    progress: Path,
    cluster: str,
) -> dict[str, str]:
    """Make the variables of a job's process; the user's own come last and win.

    A job that may use the cluster's tasks (`view`) is told where they are, under the names it knows them by.
    """
    env = {
        **base,
        "DTF_CLUSTER_NAME": cluster,
        "DTF_JOB_ID": order.job_id,
        "DTF_JOB_NAME": order.job,
        "DTF_TASK_INDEX": str(order.index),
        "DTF_IS_CHIEF": "1" if order.chief else "0",
        "DTF_PROGRESS_FILE": str(progress),
    }
    if order.view:
        table: dict[str, list[str]] = {}
        for name in sorted(order.view, key=task_order):
            if order.view[name] in addresses:
                table.setdefault(name.partition("/")[0], []).append(addresses[order.view[name]])
        env["DTF_CLUSTER"] = json.dumps(table)
        env["DTF_TARGET"] = job_target(target, order)
        env["TF_CONFIG"] = json.dumps({"cluster": table, "task": {"type": order.job, "index": order.index}})
    return {**env, **_of_this_home(order.env)}


def _of_this_home(env: Mapping[str, str]) -> dict[str, str]:
    """Expand `~` in PYTHONPATH, which a spec says once for hosts whose homes differ. Python takes it literally."""
    if "PYTHONPATH" not in env:
        return {**env}
    parts = env["PYTHONPATH"].split(os.pathsep)
    return {**env, "PYTHONPATH": os.pathsep.join(map(os.path.expanduser, parts))}


def job_target(socket_path: Path, order: ClientOrder) -> str:
    """Write what the job's sessions connect to: the task beside it, and whose state and which tasks they are to see."""
    return f"unix:{socket_path}?{job_scope(order.job_id, order.view if order.remapped else {})}"


@value
class Context:
    """What every start on this host shares, and the folder of this one."""

    agent_folder: Path
    run_folder: Path
    line: TaskSocket
    orders: HostOrders
    addresses: Mapping[str, str]
    cores: int
    keyring: Keyring
    gpus: Mapping[str, tuple[int, ...]]
    """The GPUs of this host's tasks."""


@value
class Start:
    """What a keeper is to run."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


def task_start(context: Context, order: TaskOrder, incarnation: int, gpus: tuple[int, ...]) -> Start:
    """Write the task's configuration file; how to run it.

    Raises:
        NoSpace, OSError: the file cannot be written. InternalError: the task has no certificate.
    """
    table: dict[str, dict[int, str]] = {}
    for name, address in context.addresses.items():
        job, _, index = name.partition("/")
        table.setdefault(job, {})[int(index)] = address
    file_name = order.name.replace("/", "-")
    orders, line = context.orders, context.line
    tls = context.keyring.of_task(order.name) if orders.tls else None
    if tls is not None and not tls.exist:
        raise InternalError(f"{order.name} has no certificate yet", "the controller sends one before it orders a start")
    config = TaskConfig(
        cluster=table,
        job=order.job,
        index=order.index,
        incarnation=incarnation,
        listen=context.addresses[order.name],
        socket_path=line.client_path(order.name),
        control_path=line.control_path(order.name),
        agent_path=line.beats_path,
        tls=tls,
        state_folder=private_folder(context.agent_folder / "tasks" / file_name),
        beat_s=orders.health.beat_s,
        grace_s=order.grace_s,
        transport=orders.transport,
        encrypt=orders.encrypt,
    )
    for stale in (config.socket_path, config.control_path):
        stale.unlink(missing_ok=True)
    path = context.run_folder / "config.json"
    write_whole(path, codec.encode(config).encode())
    env = _task_env(context, order, gpus)
    lend_modules(env, orders.task_command)
    return Start((*interpreter(orders.task_command), str(path)), env, context.run_folder)


def _task_env(context: Context, order: TaskOrder, gpus: tuple[int, ...]) -> dict[str, str]:
    some_gpus = any(task.gpus for task in context.orders.tasks)
    base = base_environment(os.environ, context.cores, len(context.orders.tasks))
    return task_environment(base, order, gpus if some_gpus else None)


def _client_env(context: Context, order: ClientOrder, gpus: tuple[int, ...]) -> dict[str, str]:
    progress = progress_path(context.agent_folder, order)
    base = base_environment(os.environ, context.cores, len(context.orders.tasks))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if order.cpus and name not in os.environ:
            base[name] = str(max(1, math.ceil(order.cpus)))
    if order.gpu_count is not None and order.gpus != "host":
        base["CUDA_VISIBLE_DEVICES"] = gpu_list(gpus)
    elif any(task.gpus for task in context.orders.tasks) and order.gpus != "none":
        base["CUDA_VISIBLE_DEVICES"] = gpu_list(visible_gpus(context, order))
    target = context.line.client_path(order.slot)
    return client_environment(base, order, context.addresses, target, progress, context.orders.cluster)


@value
class Surroundings:
    """Where a command of `exec` runs, and where relative paths of `get` and `put` begin."""

    env: Mapping[str, str]
    folder: Path


def working_folder(context: Context, wanted: str) -> Path:
    """Choose where a process of a job runs: the submitter's folder, where this host has it, else one for scratch."""
    path = Path(wanted).expanduser()
    # Not the agent's own folder: a program that writes `state.json` would destroy what the agent goes by.
    return path if wanted and path.is_dir() else private_folder(context.agent_folder / "scratch")


def surroundings(
    context: Context,
    order: TaskOrder | ClientOrder | None,
    gpus: tuple[int, ...],
    job_folder: str = "",
    copy: Path | None = None,
) -> Surroundings:
    """Find the surroundings of a task (its environment, the user's home), a job's process (its folder too) or the host.

    `job_folder`: of a job that has ended, whose folder is meant still. `copy`: the job's working folder on this host,
    where it has one of its own.

    The folder of the agent's Python comes first in PATH, so that `python` is the one that tasks run.
    """
    home = folder = Path.home()
    if isinstance(order, TaskOrder):
        env = _task_env(context, order, gpus)
    elif isinstance(order, ClientOrder):
        env = _client_env(context, order, gpus)
        folder = working_folder(context, order.cwd)
    else:
        env = base_environment(os.environ, context.cores, 1)
        folder = working_folder(context, job_folder) if job_folder else home
    folder = copy or folder
    own = str(Path(sys.executable).parent)
    path = env.get("PATH", os.defpath).split(os.pathsep)
    env["PATH"] = os.pathsep.join([own, *(item for item in path if item != own)])
    return Surroundings(env, folder)


def client_start(context: Context, order: ClientOrder, prepared: Prepared, gpus: tuple[int, ...]) -> Start:
    """Decide how to run a job's process beside its task."""
    private_folder(progress_path(context.agent_folder, order).parent)
    env = _client_env(context, order, gpus)
    if "DTF_CHECKPOINT_DIR" in env:
        env["DTF_CHECKPOINT_DIR"] = str(private_folder(Path(env["DTF_CHECKPOINT_DIR"]).expanduser()))
    cwd = Path(prepared.folder) if prepared.folder else working_folder(context, order.cwd)
    script = script_path(context.agent_folder, order.script_sha256, order.script)
    if prepared.folder:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [prepared.folder, env.get("PYTHONPATH", "")]))
        if order.needs.program:
            script = cwd / order.needs.program
    if prepared.environment:
        env["VIRTUAL_ENV"] = prepared.environment
        env["PATH"] = os.pathsep.join([f"{prepared.environment}/bin", env.get("PATH", os.defpath)])
    else:
        lend_modules(env, order.command)
    words = interpreter(order.command)
    if words and prepared.python:
        words = (prepared.python, *words[1:])
    if env.get("DTF_AS_TENSORFLOW") == "1":
        words = (*words, "-m", "dtfctl.run")
    return Start((*words, str(script), *order.args), env, cwd)


def lend_modules(env: dict[str, str], command: tuple[str, ...]) -> None:
    """Let the user's own Python find dtfctl, where it was sent to this host and not installed into that Python."""
    lent = lent_modules(command)
    if lent:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH", ""), *lent]))
        env[later.VARIABLE] = later.layers_file()


def lent_modules(command: tuple[str, ...]) -> tuple[str, ...]:
    """List the folders with the modules that a program is lent; none for the agent's own Python."""
    return tuple(later.folders()) if command and command[0] else ()


def interpreter(command: tuple[str, ...]) -> tuple[str, ...]:
    """Choose the words before a program's own: paths as they are on this host."""
    if not command:
        return ()
    return (str(Path(command[0]).expanduser()) if command[0] else sys.executable, *command[1:])


def script_path(agent_folder: Path, sha256: str, name: str) -> Path:
    """Name where the script of a job with this content is kept.

    Alone in its folder, which its imports look in: a script of the same content and another name is a module, too.
    """
    return agent_folder / "scripts" / sha256 / name / name


def visible_gpus(context: Context, order: ClientOrder) -> tuple[int, ...]:
    """List the GPUs of its slot, or those of all slots its job has on this host, in the order of its processes."""
    if order.gpus == "own":
        return context.gpus.get(order.slot, ())
    mine = [other for other in context.orders.clients if other.job_id == order.job_id]
    return tuple(gpu for other in mine for gpu in context.gpus.get(other.slot, ())[: other.gpu_count])


def progress_path(agent_folder: Path, order: ClientOrder) -> Path:
    """Name where a process of a job reports how far it is; the same file after a restart."""
    return agent_folder / "progress" / order.key / f"{order.job}-{order.index}.jsonl"


def save_path(agent_folder: Path, order: ClientOrder) -> Path:
    """Name the file beside it whose time changes when the process is to save."""
    progress = progress_path(agent_folder, order)
    return progress.with_name(progress.name + ".save")
