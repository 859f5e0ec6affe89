"""What a job's processes may use binds: memory, processors, GPUs; and who used too much is told so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.model import JobRequest
from tests.cluster.conftest import agent_pid, kill, spec_of, wait_until
from tests.cluster.test_job_files import run

Up = Callable[..., Cluster]
EATER = """
import time
print('begins', flush=True)
x = bytearray(600 * 2**20)
print('has it', flush=True)
time.sleep(600)
"""


@pytest.fixture
def eater(tmp_path: Path) -> str:
    path = tmp_path / "eater.py"
    path.write_text(EATER)
    return str(path)


def test_a_job_that_uses_more_memory_than_it_may_ends_and_is_told_so(up: Up, eater: str) -> None:
    cluster = up()
    status, lines = run(cluster, JobRequest(eater, memory=200 * 2**20, workers=1))
    assert (status.state, status.exit_code) == ("failed", 137)
    assert "has it" not in lines
    assert "worker/0: out of memory: it used" in status.reason and "its limit is 200 MiB" in status.reason
    assert (status.restarts, status.memory) == (0, 200 * 2**20)
    assert status.clients[0].limits.startswith("memory 200 MiB (")
    assert "out of memory" in cluster.why(status.id).answer
    assert "process.failed" in [event.kind for event in cluster.events() if "out of memory" in event.reason]

    status, lines = run(cluster, JobRequest(eater, memory=200 * 2**20, workers=1, retries=1))
    assert (status.state, status.starts) == ("failed", 2), "another try is the user's to ask for"


def test_a_slots_memory_is_also_that_of_the_job_beside_it_unless_the_job_says_otherwise(up: Up, eater: str) -> None:
    spec = spec_of(worker=1)
    cluster = up(replace(spec, tasks={**spec.tasks, "worker": replace(spec.tasks["worker"], memory=300 * 2**20)}))
    status, _ = run(cluster, JobRequest(eater))
    assert "out of memory: it used" in status.reason and "its limit is 300 MiB" in status.reason
    job_id = cluster.submit(JobRequest(eater, memory=0))
    reader = cluster.logs(f"job:{job_id}", follow=True)
    assert "has it" in [next(reader).text, next(reader).text], "no limit"
    cluster.cancel([job_id], grace_s=0.1)


@pytest.mark.skipif(os.geteuid() != 0, reason="hides control groups by a mount")
def test_where_the_kernel_cannot_be_asked_the_limits_bind_all_the_same(home: Path, tmp_path: Path, eater: str) -> None:
    (tmp_path / "c.yaml").write_text("cluster: bare\ntasks: {worker: 1}\n")
    hidden = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
    words = [sys.executable, "-m", "dtfctl", "up", str(tmp_path / "c.yaml")]
    subprocess.run(["unshare", "--mount", "sh", "-c", hidden, "sh", *words], check=True, capture_output=True)
    cluster = Cluster.open("bare")
    status, lines = run(cluster, JobRequest(eater, memory=200 * 2**20, cpus=0.5))
    assert (status.state, status.exit_code) == ("failed", 137), lines
    assert "worker/0: out of memory: it used" in status.reason and "its limit is 200 MiB" in status.reason
    cores = status.clients[0].limits.partition("cores ")[2].rstrip(")")
    assert status.clients[0].limits == f"memory 200 MiB (watched), cpus 0.5 (cores {cores})"
    assert int(cores) in os.sched_getaffinity(0)


def test_processors_are_limited_and_libraries_know_it(up: Up, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import os, pathlib\n"
        "groups = dict(line.split(':', 2)[1:] for line in open('/proc/self/cgroup').read().splitlines())\n"
        "quota = pathlib.Path('/sys/fs/cgroup/cpu' + groups.get('cpu', '/none') + '/cpu.cfs_quota_us')\n"
        "newer = pathlib.Path('/sys/fs/cgroup' + groups.get('', '/none') + '/cpu.max')\n"
        "print(len(os.sched_getaffinity(0)), quota.read_text().strip() if quota.exists() else '-',\n"
        "      newer.read_text().split()[0] if newer.exists() else '-', os.environ['OMP_NUM_THREADS'])\n"
    )
    cluster = up()
    status, lines = run(cluster, JobRequest(str(script), cpus=1, workers=1))
    assert status.state == "succeeded", status.reason
    cores, quota, newer, threads = lines[0].split()
    words = status.clients[0].limits
    if "OMP_NUM_THREADS" not in os.environ:
        assert threads == "1"
    if "control group" in words:
        assert "100000" in (quota, newer), (words, lines)
    else:
        assert words.startswith("cpus 1 (cores ") and cores == "1"
    assert status.cpus == 1.0


def test_gpus_that_are_not_there_are_not_given(up: Up, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import os\nprint(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))\n")
    cluster = up()
    status, _ = run(cluster, JobRequest(str(script), gpus=64, workers=1))
    assert status.state == "failed"
    assert "needs 64 GPUs, this host has" in status.reason
    status, lines = run(cluster, JobRequest(str(script), gpus=0, workers=1))
    assert lines == ["''"], "none is seen"


@pytest.mark.skipif(os.geteuid() != 0, reason="makes up GPUs by a mount")
def test_no_two_jobs_have_the_same_gpu_nor_one_that_is_somebody_elses(home: Path, tmp_path: Path) -> None:
    """Four are made up, of which two may be used; also after the agent has been killed."""
    (tmp_path / "c.yaml").write_text("cluster: gpus\ntasks: {worker: 3}\n")
    made_up = 'mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/{a,b,c,d} && exec "$@"'
    words = [sys.executable, "-m", "dtfctl", "up", str(tmp_path / "c.yaml")]
    mine = {**os.environ, "CUDA_VISIBLE_DEVICES": "1,3"}
    subprocess.run(
        ["unshare", "--mount", "bash", "-c", made_up, "sh", *words], check=True, capture_output=True, env=mine
    )
    cluster = Cluster.open("gpus")
    script = tmp_path / "job.py"
    script.write_text(
        "import os, time\nprint('has', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\ntime.sleep(600)\n"
    )
    ids, has = [], set()
    for _ in range(2):
        ids.append(cluster.submit(JobRequest(str(script), gpus=1, workers=1)))
        has.add(next(line.text for line in cluster.logs(f"job:{ids[-1]}", follow=True) if line.text.startswith("has ")))
    assert has == {"has 1", "has 3"}
    before = agent_pid(cluster)
    kill(before)
    wait_until(lambda: cluster.status().hosts[0].agent_pid not in (None, before), "another agent")
    waits = "waits for 1 GPU on localhost: it has 2, taken by job-1, job-2"
    third = cluster.submit(JobRequest(str(script), gpus=1, workers=1))
    wait_until(lambda: cluster.job(third).reason == waits, "it waits")
    assert cluster.job(third).state == "queued"
    assert waits in cluster.why(third).answer
    cluster.cancel(ids[:1], grace_s=0.1)
    told = next(line.text for line in cluster.logs(f"job:{third}", follow=True) if line.text.startswith("has "))
    assert told == "has 1", "which the first had"
    status, _ = run(cluster, JobRequest(str(script), gpus=3, workers=1))
    assert status.state == "failed" and "needs 3 GPUs, this host has 0 for it" in status.reason
    cluster.cancel([ids[1], third], grace_s=0.1)


def test_limits_that_cannot_be_are_refused_at_once(up: Up, eater: str) -> None:
    cluster = up()
    for wrong in (JobRequest(eater, cpus=0), JobRequest(eater, memory=100), JobRequest(eater, gpus=-1)):
        with pytest.raises(UsageError):
            cluster.submit(wrong)
    assert cluster.jobs() == []
