"""Slurm's own commands: what they are asked, and what they answer.

Only formats that have been the same for many releases are read: `scontrol show job` in one line, and what `sinfo -o`
is told to write.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dtfctl.launcher.errors import ClusterFailed, LauncherError

ASK_S = 30.0
SUBMIT_S = 60.0
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")
"""Variables that say which Slurm there is. The others are of a job, or options, and not ours."""
OVER = frozenset(
    {
        *("CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "BOOT_FAIL", "REVOKED"),
        *("NODE_FAIL", "PREEMPTED"),
    }
)
"""States of a job that comes back by itself no more."""
RUNS = frozenset({"RUNNING", "SUSPENDED"})
NO_LIMIT = ("UNLIMITED", "365-00:00:00")
"""A job without a limit has a year at first."""
ENDING = "COMPLETING"
"""The state of a job that ends, or is about to begin anew: the next look says which."""
MUNGE = (
    "munged has to run on this machine, with the key of the Slurm cluster; try: munge -n | unmunge; where it does not "
    "run, ask who looks after the cluster, or take another login node"
)
UNCONFIGURED = ("configuration source", "resolve_ctls_from_dns_srv", "Unable to process configuration", "slurm.conf")
CONFIGURATION = (
    "run this on a login node of the Slurm cluster, or name its file: export SLURM_CONF=/etc/slurm/slurm.conf"
)
UNKNOWN_JOB = ("invalid job id", "invalid jobid")


class SlurmSilent(LauncherError):
    """Slurm cannot be asked now; what was known of it may still be so."""

    exit_code = ClusterFailed.exit_code


@dataclass(frozen=True, slots=True)
class Job:
    """A job of Slurm's, as it stands."""

    id: str
    state: str
    reason: str
    nodes: str
    """The nodes as Slurm writes them: `n[1-3]`; empty while it waits."""
    starts: float | None
    ends: float | None
    restarts: int
    comment: str = ""
    indices: tuple[int, ...] = ()
    """The number that it has in its array, or the numbers of those that wait together."""
    array: str = ""

    @property
    def called(self) -> str:
        """The name for commands; the number of the last of an array's jobs names all of them."""
        return f"{self.array}_{self.indices[0]}" if len(self.indices) == 1 else self.id

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def runs(self) -> bool:
        return self.state in RUNS


@dataclass(frozen=True, slots=True)
class Node:
    """A node, as Slurm reaches it."""

    name: str
    address: str
    has_gpus: bool
    """Whether Slurm hands out its GPUs."""


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Choose the variables for a command of Slurm's: none of the job in which this may run."""
    every = os.environ if environ is None else environ
    return {
        key: value
        for key, value in every.items()
        if key in KEPT or not key.startswith(("SLURM_", "SBATCH_", "SRUN_", "SCONTROL_", "SINFO_", "PMI", "DTF"))
    }


def run(words: Sequence[str], timeout_s: float = ASK_S, given: str = "") -> str:
    """Run a command of Slurm's; what it writes.

    Raises:
        ClusterFailed: it is not there, or refuses. SlurmSilent: its controller cannot be asked.
    """
    program = words[0]
    if shutil.which(program) is None:
        raise ClusterFailed(
            f"`provider: slurm`, but there is no `{program}` on this machine",
            "run this on a login node of the Slurm cluster, or inside an allocation, with Slurm's commands in PATH",
        )
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**environment(), "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"},
        )
    except subprocess.TimeoutExpired:
        raise SlurmSilent(
            f"`{program}` has not answered within {timeout_s:.0f} s", "is slurmctld up? try: sinfo"
        ) from None
    except OSError as error:
        raise ClusterFailed(f"`{program}` cannot be run: {error.strerror}", "try: sinfo") from None
    if done.returncode == 0:
        return done.stdout
    said = first_error(done.stderr, program) or f"it ended with {done.returncode}"
    if any(text in done.stderr.lower() for text in ("unable to contact", "communication", "connection", "timed out")):
        raise SlurmSilent(f"Slurm does not answer: {said}", "is slurmctld up? try: sinfo")
    if (munge := _about_munge(done.stderr)) is not None:
        raise ClusterFailed(f"Slurm does not believe who asks: {munge}", MUNGE)
    if any(text in done.stderr for text in UNCONFIGURED):
        raise ClusterFailed(f"`{program}` does not know which Slurm there is: {said}", CONFIGURATION)
    raise ClusterFailed(f"Slurm refuses: {said}", _hint_of(said))


def _about_munge(stderr: str) -> str | None:
    """Find what is said of munge, by which Slurm knows its users; None: nothing."""
    lines = [line.strip() for line in stderr.splitlines()]
    found = [line for line in lines if "munge" in line.lower() and "failed" in line.lower()]
    found += [line for line in lines if "authentication" in line.lower()]
    return found[0].partition("error: ")[2] or found[0] if found else None


def first_error(stderr: str, program: str) -> str:
    """Take from what a command says the line that tells why, without the command's name."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("Try ")]
    wanted = [line for line in lines if "error" in line.lower() and "PMIx" not in line] or lines
    return wanted[-1].removeprefix(f"{program}: ").removeprefix("error: ")[:300] if wanted else ""


def _hint_of(said: str) -> str:
    low = said.lower()
    for words, hint in (
        (("option",), "`slurm: {extra: [--NAME=VALUE]}` has what sbatch takes; it is said by: sbatch --help"),
        (("reservation",), "what there is says: scontrol show reservation"),
        (("gres", "generic resource"), "`slurm: {gres: NAME:COUNT}`; what nodes have says: sinfo -N -o '%N %G'"),
        (("feature",), "`slurm: {constraint: NAME}`; what nodes have says: sinfo -N -o '%N %f'"),
        (("partition",), "`slurm: {partition: NAME}`; what there is says: sinfo"),
        (("account", "qos"), "`slurm: {account: NAME, qos: NAME}`; yours are said by: sacctmgr show assoc user=$USER"),
        (("time limit", "timelimit"), "`slurm: {time: 1h}`; limits are said by: sinfo -o '%P %l'"),
        (
            ("node", "processor", "memory"),
            "ask for less in `slurm`; what there is says: sinfo -N -l",
        ),
    ):
        if any(word in low for word in words):
            return hint
    return "change `slurm` in FILE"


def show_job(job: str) -> Job | None:
    """Look at a job; None where Slurm does not know it, any more or yet."""
    try:
        return parse_job(run(["scontrol", "-o", "show", "job", job]))
    except ClusterFailed as error:
        if any(text in error.message.lower() for text in UNKNOWN_JOB):
            return None
        raise


def show_array(job: str) -> list[Job]:
    """Look at the jobs of an array; none where Slurm does not know it, any more or yet."""
    try:
        lines = run(["scontrol", "-o", "show", "job", job]).splitlines()
    except ClusterFailed as error:
        if any(text in error.message.lower() for text in UNKNOWN_JOB):
            return []
        raise
    return [found for line in lines if (found := parse_job(line)) is not None]


def _indices(text: str) -> tuple[int, ...]:
    """Read the numbers of an array's jobs.

    >>> _indices("0-2,5%2"), _indices("7")
    ((0, 1, 2, 5), (7,))
    """
    found: list[int] = []
    for part in text.partition("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            found += range(int(first), int(last if last.isdecimal() else first) + 1)
    return tuple(found)


def parse_job(line: str) -> Job | None:
    """Read what `scontrol -o show job` says; None where it says nothing.

    >>> parse_job("JobId=17 JobName=x JobState=PENDING Reason=Resources Restarts=0 NodeList= StartTime=Unknown").reason
    'Resources'
    """
    found: dict[str, str] = {}
    for word in line.splitlines()[0].split(" ") if line.strip() else ():
        key, is_pair, value = word.partition("=")
        if is_pair:
            found.setdefault(key, value)
    if "JobId" not in found:
        return None
    nodes = found.get("NodeList", "")
    return Job(
        id=found["JobId"],
        state=found.get("JobState", ""),
        reason=found.get("Reason", "").replace("_", " ") or "None",
        nodes="" if nodes == "(null)" else nodes,
        starts=_time(found.get("StartTime", "")),
        ends=None if found.get("TimeLimit") in NO_LIMIT else _time(found.get("EndTime", "")),
        restarts=int(found.get("Restarts", "0") or 0),
        comment=found.get("Comment", ""),
        indices=_indices(found.get("ArrayTaskId", "")),
        array=found.get("ArrayJobId", ""),
    )


def _time(text: str) -> float | None:
    """Read a time as Slurm writes it: seconds since the epoch, as `run` asks for, or this machine's own."""
    if text.isdecimal():
        return float(text)
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def names_of(nodes: str) -> list[str]:
    """Write the nodes of a list out, in its order."""
    return run(["scontrol", "show", "hostnames", nodes]).split() if nodes else []


def describe(nodes: str) -> dict[str, Node]:
    """Ask how nodes are reached: by name."""
    found = {}
    for line in run(["sinfo", "-h", "-N", "-n", nodes, "-o", "%N|%o|%G"]).splitlines():
        name, _, rest = line.strip().partition("|")
        address, _, gres = rest.partition("|")
        found[name] = Node(name, _resolved(address), "gpu" in gres)
    return found


def _resolved(address: str) -> str:
    """Find the number of an address: agents listen there, and certificates name it."""
    try:
        return str(socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return address


def submit(words: Sequence[str], script: str) -> str:
    """Submit a batch script; the job's id."""
    return run(["sbatch", "--parsable", *words], SUBMIT_S, given=script).strip().splitlines()[-1].partition(";")[0]


def cancel(job: str) -> None:
    """Cancel a job; one that is over already is no error."""
    try:
        run(["scancel", job])
    except ClusterFailed as error:
        if not any(text in error.message.lower() for text in (*UNKNOWN_JOB, "already", "completing")):
            raise


def requeue(job: str) -> None:
    """Give a job's nodes back; it waits for others."""
    run(["scontrol", "requeue", job])


def find(name: str, comment: str) -> list[str]:
    """Find the jobs of ours with that name and comment that are not over, arrays as one, the oldest first."""
    listed = run(["squeue", "-h", "-u", str(os.geteuid()), "-n", name, "-o", "%F|%k"]).split()
    found = {line.partition("|")[0] for line in listed if line.partition("|")[2] == comment}
    return sorted(found, key=lambda job: (len(job), job))
