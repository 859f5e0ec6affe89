"""What a host is told about the processes of a job: pure functions of the stored job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.controller.state.frameworks import Group, Member
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord, Placed
from dtfctl.launcher.messages.orders import RETRYABLE_EXIT, ClientOrder
from dtfctl.launcher.spec.exchange import TransferCompression
from dtfctl.launcher.spec.model import LOCAL_NAMES, ClusterSpec

FAILED_GRACE_S = 5.0
"""The others of a job that has failed get no more time than this to end."""
AGAIN_GRACE_S = 1.0
"""The seconds that those of a job that starts again have to end: what they do is lost anyway."""


def client_orders(
    spec: ClusterSpec, rules: RestartPolicy, place_of: Mapping[str, str], job: JobRecord, host: str
) -> tuple[ClientOrder, ...]:
    """Order the job's processes on `host`, by their ranks. `place_of`: task to host, of the whole cluster."""
    return tuple(
        _order(spec, rules, place_of, job, placed, host)
        for placed in job.processes
        if place_of.get(placed.task) == host
    )


def _order(
    spec: ClusterSpec, rules: RestartPolicy, place_of: Mapping[str, str], job: JobRecord, placed: Placed, host: str
) -> ClientOrder:
    request, framework = job.request, job.framework
    takes_part = placed in job.taking_part
    chief = placed.name == job.taking_part[0].name
    role, _, index = placed.name.partition("/")
    ports = framework.ports(placed.name, chief or job.is_elastic)  # any of them may be the first that is left
    view = {item.name: item.task for item in job.placed} if framework.sees_tasks else {}
    return ClientOrder(
        job_id=job.id,
        job=role,
        index=int(index),
        slot=placed.task,
        generation=job.generation,
        starts_floor=job.starts.get(placed.name, 0),
        run=job.ending is None and job.released and takes_part,
        chief=chief,
        command=(request.python or spec.python or "",) if framework.interpreter else (),
        script=Path(job.script).name,
        script_sha256=job.script_sha256,
        args=request.args,
        env={
            **spec.env,
            **job_environment(spec, job),
            **_variables(job, placed),
            **_synced_env(spec, host, request.env),
        },
        cwd=working_folder(spec, job, host),
        restart=_policy(job, rules),
        grace_s=_grace_s(job),
        ports=ports,
        first_port=spec.ports.first or 0 if ports else 0,
        last_port=spec.ports.last or 0 if ports else 0,
        needs_task=framework.needs_tasks,
        gpus=framework.gpus,
        view=view,
        needs=job.needs,
        job_uid=job.uid,
        memory_bytes=memory_of(spec, job, placed.task) or 0,
        cpus=request.cpus or 0.0,
        gpu_count=request.gpus,
        remapped=bool(view) and (set(view) != set(place_of) or any(name != task for name, task in view.items())),
    )


def memory_of(spec: ClusterSpec, job: JobRecord, task: str) -> int | None:
    """Choose the memory for a process of the job beside `task`: what was asked for, else as much as the task's."""
    if job.request.memory is not None:
        return job.request.memory or None
    group = spec.tasks.get(task.partition("/")[0])
    return None if group is None else group.memory


def working_folder(spec: ClusterSpec, job: JobRecord, host: str) -> str:
    """Find where a job's processes run on `host`: the submitter's folder, or the synchronised copy of it."""
    return synced_path(spec, host, job.request.cwd or job.folder)


def synced_path(spec: ClusterSpec, host: str, path: str) -> str:
    """Find where a path of this machine is on `host`, if it lies in a folder that `sync` sends there; else as it is."""
    if host in LOCAL_NAMES:
        return path
    for item in spec.sync:
        if Path(path).is_relative_to(item.source):
            return os.path.normpath(os.path.join(item.to, Path(path).relative_to(item.source)))
    return path


def _synced_env(spec: ClusterSpec, host: str, env: Mapping[str, str]) -> dict[str, str]:
    """Make the user's variables such that modules beside the script are found in the synchronised copy."""
    found = dict(env)
    if "PYTHONPATH" in found:
        parts = found["PYTHONPATH"].split(os.pathsep)
        found["PYTHONPATH"] = os.pathsep.join(synced_path(spec, host, part) for part in parts)
    return found


def _grace_s(job: JobRecord) -> float:
    if job.ending is None:
        return min(job.grace_s, AGAIN_GRACE_S)
    return min(job.grace_s, FAILED_GRACE_S) if job.ending.state == "failed" else job.grace_s


def _policy(job: JobRecord, rules: RestartPolicy) -> RestartPolicy:
    """Limit restarts to a process that was killed, or asks for it; one that failed by itself decides the job."""
    together = job.framework.restarts == "all"
    return replace(rules, when="failure", limited=True, only_exit=(RETRYABLE_EXIT,), together=together)


def _variables(job: JobRecord, placed: Placed) -> dict[str, str]:
    """Make the variables that a framework reads; none before the places of all processes are known."""
    if not job.released:
        return {}
    members = job.members or tuple(Member(p.name, "") for p in job.processes)
    group = Group(job.id, job.generation, members, {"tf_config": job.request.tf_config}, job.request.retries)
    me = group.member(placed.name)
    return {} if me is None else job.framework.variables(group, me)


def job_environment(spec: ClusterSpec, job: JobRecord) -> dict[str, str]:
    """Make the variables that say what the cluster file wants of a job."""
    wanted = spec.checkpoints
    env = {
        "DTF_CHECKPOINT_DIR": job.checkpoint_dir,
        "DTF_CHECKPOINT_KEEP": str(wanted.keep),
        "DTF_FRAMEWORK": job.request.framework,
        "DTF_REPLICATION": job.request.replication,
        "DTF_RETRYABLE_EXIT": str(RETRYABLE_EXIT),
        "DTF_STARTS": str(job.generation),
    }
    if wanted.every.seconds is not None:
        env["DTF_CHECKPOINT_SECONDS"] = str(wanted.every.seconds)
    if wanted.every.steps is not None:
        env["DTF_CHECKPOINT_STEPS"] = str(wanted.every.steps)
    if spec.runtime.compression != TransferCompression():
        env["DTF_COMPRESSION"] = json.dumps(_compression(spec.runtime.compression))
    return env


def _compression(wanted: TransferCompression) -> dict[str, Any]:
    """Write it as the runtime reads it."""
    rules = {
        name: {key: codec for key in ("gradients", "parameters") if (codec := getattr(rule, key)) is not None}
        for name, rule in wanted.variables.items()
    }
    return {**asdict(wanted), "variables": rules}
