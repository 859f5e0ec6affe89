"""Clusters on the nodes of a test's Slurm, and what is seen of them there."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dtfctl.launcher.api import Cluster, UpResult
from dtfctl.launcher.model import ClusterStatus, JobEnded
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import ClusterSpec
from tests.cluster.conftest import STUB_COMMAND, wait_until
from tests.slurm.site import Site, sruns as of_site

SOON = timedelta(seconds=10)
TRAIN = """
import os, time
import dtfctl.runtime as tf
step = tf.train.get_or_create_global_step()
train = tf.assign_add(step, 1)
with tf.train.MonitoredTrainingSession(checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"], save_checkpoint_secs=1,
                                       is_chief=os.environ["DTF_TASK_INDEX"] == "0") as session:
    print("begins at", session.run(step), flush=True)
    while not os.path.exists({end!r}):
        session.run(train)
        time.sleep(0.01)
    print("ends at", session.run(step), flush=True)
"""


def name() -> str:
    """A cluster's name of this test's own: the nodes' home knows what other tests have left there."""
    words = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].partition(" ")[0]
    return f"t-{zlib.crc32(words.encode()):08x}"


def spec_of(slurm: str = "nodes: 2", tasks: str = "{ps: 1, worker: 2}", **more: str) -> ClusterSpec:
    cpus = "" if "cpus" in slurm else ", cpus: 1"
    text = f"cluster: {name()}\nprovider: slurm\nslurm: {{{slurm}{cpus}}}\ntasks: {tasks}\n"
    text += "".join(f"{key}: {value}\n" for key, value in more.items())
    return parse_spec(text, environ=dict(os.environ))


def bring_up(spec: ClusterSpec, **options: Any) -> Cluster:
    result: UpResult = Cluster.up(spec, task_command=STUB_COMMAND, **options)
    assert result.exit_code == 0, result.problems
    assert result.cluster is not None
    return result.cluster


def wait_status(cluster: Cluster, is_so: Callable[[ClusterStatus], Any], what: str) -> ClusterStatus:
    def look() -> ClusterStatus | None:
        status = cluster.status()
        return status if is_so(status) else None

    found: ClusterStatus = wait_until(look, what)
    return found


def all_run(status: ClusterStatus) -> bool:
    return status.running == len(status.tasks)


def kinds(cluster: Cluster) -> list[str]:
    return [event.kind for event in cluster.events()]


def commands_on(site: Site) -> list[str]:
    """The command lines of all that Slurm has started, and of the `srun` that did."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"SLURM_CONF={site.conf}".encode() in environ and "slurmctld" not in words and "munged" not in words:
            found.append(words)
    return found


def agents(site: Site) -> list[str]:
    return [words for words in commands_on(site) if "dtfctl.launcher.agent" in words]


def steps(site: Site) -> dict[str, str]:
    """The node of each step of ours."""
    lines = site.ask("squeue", "-s", "-h", "-o", "%i|%N|%j").splitlines()
    return {step: node for step, node, name in (line.split("|") for line in lines) if name == "dtfctl"}


def checkpoints(site: Site) -> list[Path]:
    """Checkpoints of later than the beginning, in the home that nodes share, or in each of theirs."""
    homes = {site.home_of(node) for node in site.names}
    every = [path for home in homes for path in (home / ".dtfctl" / "clusters" / name()).rglob("*.index")]
    return [path for path in every if not path.name.endswith("-0.index")]


def begin_now(site: Site, job: str) -> bool:
    """A requeued job waits for two minutes by itself: let it wait for less, and look whether it runs.

    Not at once: a node refuses a job that begins in the second in which it has ended there, which Slurm takes for its
    failure.
    """
    with contextlib.suppress(subprocess.CalledProcessError):  # it still ends
        begins = re.search(r"EligibleTime=(\S+)", site.ask("scontrol", "-o", "show", "job", job))
        if begins and begins[1] != "Unknown" and datetime.fromisoformat(begins[1]) > datetime.now() + SOON:
            site.ask("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    return "R" in site.ask("squeue", "-h", "-j", job, "-o", "%t")


def sruns(site: Site) -> list[tuple[int, int]]:
    """The `srun` of each step, and the second process of each, which looks after the first."""
    parents = of_site(site.conf)
    return [(parent, pid) for pid, parent in parents.items() if parent in parents]


def running(site: Site) -> list[str]:
    return site.ask("squeue", "-h", "-r", "-t", "running", "-o", "%A").split()


def waiting(site: Site) -> list[str]:
    return site.ask("squeue", "-h", "-r", "-t", "pending", "-o", "%A").split()


def said(cluster: Cluster, job_id: str) -> list[str]:
    """Follow a job to its end, which is to be a good one; what it has written."""
    lines = []
    for item in cluster.follow_job(job_id):
        if isinstance(item, JobEnded):
            assert item.status.state == "succeeded", item
        elif hasattr(item, "line"):
            lines.append(item.line.text)
    return lines
