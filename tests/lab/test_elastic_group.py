"""A group of torch whose hosts come and go, over hosts of the lab that take one task each."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import PartlyDone
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import TaskGroup
from tests.cluster.conftest import STUB_COMMAND, home, wait_until
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab

__all__ = ["home"]

MEMBER = """
    import os, time
    start, world = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["WORLD_SIZE"])
    print("start", start, "rank", os.environ["RANK"], "of", world, "at", os.environ["MASTER_ADDR"], flush=True)
    while not (start >= 2 and world == 2):  # it was whole, then smaller, and is whole again
        time.sleep(0.1)
"""


@pytest.mark.nightly
def test_a_group_goes_on_with_fewer_and_takes_more_when_they_come(
    make_lab: Callable[[int], Lab], home: Path, tmp_path: Path
) -> None:
    lab = make_lab(2)
    script = tmp_path / "member.py"
    script.write_text(textwrap.dedent(MEMBER))
    spec = cluster_of(lab, slots=1, tasks={"worker": TaskGroup(2)})
    cluster = Cluster.up(spec, task_command=STUB_COMMAND).cluster
    assert cluster is not None
    job_id = cluster.submit(JobRequest(str(script), framework="torch", min_workers=1))

    def said() -> list[list[str]]:
        """What processes say, on hosts that answer."""
        found = []
        with contextlib.suppress(PartlyDone):
            for line in cluster.logs(f"job:{job_id}"):
                if line.text.startswith("start "):
                    found.append(line.text.split())
        return found

    wait_until(lambda: len(said()) == 2, "both run")
    first = next(client.host for client in cluster.job(job_id).clients if client.name == "worker/0")
    victim = next(name for name in lab.names if lab.address_of(name) == first)
    lab.poweroff(victim)
    wait_until(lambda: cluster.job(job_id).reason == "goes on with 1 of 2 processes", "the other goes on alone")
    assert cluster.job(job_id).state == "running"
    alone = wait_until(lambda: next((words for words in said() if words[1] == "1"), None), "it runs")
    assert alone[3:6] == ["0", "of", "1"], "ranks are counted anew"
    assert alone[7] != first, "where the first rank was nobody meets any more"
    lab.boot(victim)
    status = wait_until(lambda: (job := cluster.job(job_id)).is_final and job, "both are there again", 180.0)
    assert status.state == "succeeded", status.reason
    assert {words[3] for words in said() if words[5] == "2" and words[1] != "0"} == {"0", "1"}
    cluster.down(grace_s=1.0)
