"""`down` while a host cannot be reached: nothing is forgotten, unless the user says so; and what is left there ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster, clusters
from dtfctl.launcher.errors import NoSuchCluster
from dtfctl.launcher.spec.model import Health
from tests.cluster.conftest import STUB_COMMAND, wait_until
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import Lab

SHORT = Health(lease=6.0)


def test_a_host_out_of_reach_is_kept_until_it_is_given_up_and_ends_what_it_runs(home: Path, lab: Lab) -> None:
    # One login at a time, as `up --parallel 1` has it.
    spec = cluster_of(lab, health=SHORT, ssh=ssh_of(lab, parallel=1, timeout=5.0, retries=0))
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    gone = lab.names[2]
    lab.cut(gone)

    _, problems = Cluster.down_by_name("t", grace_s=0.5)
    assert len(problems) == 1 and lab.address_of(gone) in problems[0], problems
    assert [info.name for info in clusters()] == ["t"], "a later `down` finds it"

    _, problems = Cluster.down_by_name("t", grace_s=0.5, force=True)
    assert len(problems) == 1 and lab.address_of(gone) in problems[0], problems
    with pytest.raises(NoSuchCluster):
        Cluster.open("t")
    for name in lab.names[:2]:
        assert lab.processes(name, "dtfctl") == []
    wait_until(lambda: not lab.processes(gone, "stub_task"), "its lease has ended")

    lab.mend(gone)
    again = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (again.exit_code, again.running) == (0, 3), again.problems
    assert again.cluster is not None and again.cluster.down(grace_s=0.5) == ()
    assert lab.processes(gone, "dtfctl") == []
