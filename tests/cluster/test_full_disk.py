"""A disk that is full when a cluster starts, and one that fills up while it runs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher import api
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import NoSpace
from dtfctl.launcher.model import JobRequest
from tests.cluster.conftest import STUB_COMMAND, kill, pids, processes_of, spec_of, task, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is made with a tmpfs, which needs root")
MakeDisk = Callable[[str], Path]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDisk]:
    """Mount a tmpfs of a size and put the clusters there."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip(f"cannot mount a tmpfs here: {done.stderr.decode()}")
        monkeypatch.setenv("DTFCTL_HOME", str(folder / "home"))
        return folder

    yield mount
    if os.path.ismount(folder):
        (folder / "ballast").unlink(missing_ok=True)
        for info in api.clusters():
            Cluster.down_by_name(info.name, grace_s=1.0)
        wait_until(lambda: not processes_of(folder), "nothing runs")
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no free byte."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_up_on_a_full_disk_says_so_and_leaves_no_process(disk: MakeDisk) -> None:
    folder = disk("64k")
    with pytest.raises(NoSpace, match=r"no space left .*disk"):
        Cluster.up(spec_of(), task_command=STUB_COMMAND)
    if api.clusters():
        Cluster.down_by_name(grace_s=1.0)
    wait_until(lambda: not processes_of(folder), "nothing runs")


def test_a_disk_that_fills_up_stops_nothing_and_is_shown_and_recovers(disk: MakeDisk, tmp_path: Path) -> None:
    folder = disk("4m")
    cluster = Cluster.up(spec_of(), task_command=STUB_COMMAND).cluster
    assert cluster is not None
    before = pids(cluster)
    fill(folder)
    kill(before["worker/1"])
    wait_until(lambda: any("no space" in problem for problem in cluster.status().problems), "status shows it")
    script = tmp_path / "job.py"
    script.write_text("print(1)")
    with pytest.raises(NoSpace):
        cluster.submit(JobRequest(str(script)))
    time.sleep(1.5)
    running = pids(cluster)
    assert (running["ps/0"], running["worker/0"]) == (before["ps/0"], before["worker/0"])
    (folder / "ballast").unlink()
    again = wait_until(lambda: (t := task(cluster, "worker/1")).state == "running" and t, "started again")
    assert again.restarts == 1
    wait_until(lambda: cluster.status().problems == (), f"all is well, now {cluster.status().problems}", 5)
    assert list(cluster.follow_job(cluster.submit(JobRequest(str(script)))))[-1].status.state == "succeeded"
