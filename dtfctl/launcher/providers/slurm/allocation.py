"""The allocation of a cluster: taken from where `up` runs, or asked for; noted in the cluster's folder; given back.

What is noted is written before Slurm is asked, with a comment by which the job is found where the answer was lost.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence

from dtfctl.launcher.errors import ClusterFailed, Conflict
from dtfctl.launcher.messages import codec
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.slurm import commands
from dtfctl.launcher.providers.slurm.commands import Job
from dtfctl.launcher.spec.model import ClusterSpec, Slurm
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.values import replace, value

SCRIPT = "#!/bin/sh\nwhile :; do sleep 3600; done\n"
"""The batch script: holds the nodes, on which agents come as steps of their own."""
MIB = 2**20


@value
class Allocation:
    """Which job of Slurm's lends the hosts."""

    job: str
    """Empty: it has been asked for, and the answer is not known."""
    is_ours: bool
    """Whether `up` has asked for it, so that `down` gives it back."""
    token: str = ""
    since: float = 0.0
    is_array: bool = False
    """Whether each host is a job of its own, which comes and goes."""
    more: tuple[str, ...] = ()
    """Further arrays, asked for in place of hosts that were taken back for good."""


def read(paths: ClusterPaths) -> Allocation | None:
    """Read which job it is; None: there is none."""
    try:
        return codec.decode(Allocation, paths.allocation.read_bytes())
    except FileNotFoundError:
        return None


def _write(paths: ClusterPaths, allocation: Allocation) -> Allocation:
    private_folder(paths.folder)
    write_whole(paths.allocation, codec.encode(allocation).encode())
    return allocation


def acquire(paths: ClusterPaths, spec: ClusterSpec) -> Allocation:
    """Keep the allocation that there is, take the one in which this runs, or ask for one.

    Raises:
        ClusterFailed: Slurm is not here, or refuses. Conflict: the allocation in which this runs is too small.
    """
    known = _known(paths)
    if known is not None and any(not job.is_over for job in jobs_of(known)):
        return known
    inside = os.environ.get("SLURM_JOB_ID", "")
    if inside:
        return _write(paths, _inside(inside, spec))
    is_array = spec.slurm.min is not None
    asked = _write(paths, Allocation("", True, secrets.token_hex(8), time.time(), is_array))
    try:
        job_id = commands.submit(asked_for(paths.name, spec.slurm, asked.token), SCRIPT)
    except ClusterFailed:
        paths.allocation.unlink()  # it said no; where it said nothing, the job may be there
        raise
    return _write(paths, replace(asked, job=job_id))


def _known(paths: ClusterPaths) -> Allocation | None:
    """Read which job it is, and look for it where its id never came back."""
    known = read(paths)
    if known is None or known.job:
        return known
    found = commands.find(_name(paths.name), known.token)
    return _write(paths, replace(known, job=found[0])) if found else None


def jobs_of(known: Allocation) -> list[Job]:
    """Look at the jobs that lend hosts: one, or one for each host."""
    if not known.is_array:
        job = commands.show_job(known.job)
        return [] if job is None else [job]
    return [job for name in (known.job, *known.more) for job in commands.show_array(name)]


def ask_again(paths: ClusterPaths, slurm: Slurm, known: Allocation, hosts: Sequence[int]) -> Allocation:
    """Ask for hosts that were taken back for good, unless that has been done and the answer was lost.

    Raises:
        ClusterFailed, SlurmSilent: Slurm refuses, or cannot be asked.
    """
    name = _name(paths.name)
    lost = [job for job in commands.find(name, known.token) if job not in (known.job, *known.more)]
    if not lost:
        lost = [commands.submit(asked_for(paths.name, slurm, known.token, hosts), SCRIPT)]
    return _write(paths, replace(known, more=(*known.more, *lost)))


def _inside(job_id: str, spec: ClusterSpec) -> Allocation:
    job = commands.show_job(job_id)
    if job is None or not job.runs:
        raise ClusterFailed(
            f"SLURM_JOB_ID says {job_id}, but Slurm has no such job that runs",
            "leave the shell of that allocation, or: unset SLURM_JOB_ID",
        )
    there, wanted = len(commands.names_of(job.nodes)), spec.slurm.min or spec.slurm.nodes or 1
    if there < wanted:
        raise Conflict(
            f"`slurm: {{nodes: {wanted}}}`, but the allocation in which this runs, job {job_id}, has {there}",
            f"write `nodes: {there}`; or, to ask for another allocation: unset SLURM_JOB_ID",
        )
    return Allocation(job_id, False, since=time.time())


def asked_for(cluster: str, slurm: Slurm, token: str, hosts: Sequence[int] = ()) -> list[str]:
    """Write what is asked of sbatch: all nodes together, or (`min`) each by itself; `hosts`: only those.

    >>> asked_for("lab", Slurm(nodes=2, time=3600.0, gres="gpu:1"), "t")[-3:]
    ['--gres=gpu:1', '--exclusive', '--mem=0']
    """
    count = slurm.nodes or 1
    nodes = [f"--nodes={count}"]
    if slurm.min is not None:
        nodes = ["--nodes=1", "--array=" + (",".join(map(str, hosts)) if hosts else f"0-{count - 1}")]
    words = [
        *(f"--job-name={_name(cluster)}", f"--comment={token}", *nodes, "--ntasks-per-node=1"),
        *("--no-kill", "--requeue", "--input=/dev/null", "--output=/dev/null", "--error=/dev/null", "--export=NONE"),
    ]
    for name in ("partition", "account", "qos", "constraint", "gres"):
        if (said := getattr(slurm, name)) is not None:
            words.append(f"--{name}={said}")
    if slurm.time is not None:
        words.append(f"--time={max(1, round(slurm.time / 60))}")
    words.append("--exclusive" if slurm.cpus is None else f"--cpus-per-task={slurm.cpus}")
    if slurm.memory is not None:
        words.append(f"--mem={max(1, slurm.memory // MIB)}M")
    elif slurm.cpus is None:
        words.append("--mem=0")
    return [*words, *slurm.extra]


def _name(cluster: str) -> str:
    return f"dtfctl-{cluster}"


def release(paths: ClusterPaths) -> bool:
    """Give the allocation back if `up` has asked for it, and forget it. Whether all that ran there ends by that.

    Raises:
        ClusterFailed, SlurmSilent: Slurm cannot be asked; it is still noted.
    """
    known = _known(paths)
    if known is not None and known.is_ours:
        every = {known.job, *known.more}
        if known.is_array:
            every.update(commands.find(_name(paths.name), known.token))
        for job in sorted(every):
            commands.cancel(job)
    paths.allocation.unlink(missing_ok=True)
    return known is not None and known.is_ours


def how_it_ended(job: Job | None) -> str:
    """Say how a job has ended, and what to do."""
    how = {
        "CANCELLED": "was cancelled",
        "TIMEOUT": "has reached its time limit",
        "DEADLINE": "has reached its deadline",
        "PREEMPTED": "was preempted",
        "NODE_FAIL": "has lost a node",
        "OUT_OF_MEMORY": "ran out of memory",
        "COMPLETED": "has ended",
        "FAILED": "has failed",
    }
    return "is over" if job is None else how.get(job.state, f"has ended ({job.state.lower()})")
