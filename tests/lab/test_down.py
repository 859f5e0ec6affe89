"""`down` while a host cannot be reached: nothing is forgotten, unless the user says so; and what is left there ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster, clusters
from dtfctl.launcher.errors import NoSuchCluster
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Health
from tests.cluster.conftest import STUB_COMMAND, controller_pid, wait_until
from tests.cluster.strangers import PREFACE, greet, listening_ports
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import Lab

SHORT = Health(lease=6.0)


def identities(home: Path, lab: Lab, kept: Path) -> list[TlsFiles]:
    """Copies of every certificate with its key that is on this machine or on a host."""
    found = []
    for place in (home, *map(lab.home, lab.names)):
        for number, cert in enumerate(sorted(place.rglob("*.pem"))):
            if cert.with_suffix(".key").exists() and cert.stem != "ca":
                folder = kept / place.parent.name / str(number)
                shutil.copytree(cert.parent, folder)
                found.append(TlsFiles.of(folder, cert.stem))
    return found


def doors(lab: Lab, cluster: Cluster) -> list[tuple[str, int]]:
    """Where processes of a cluster listen: on its hosts, and here its controller."""
    there = [
        (lab.address_of(name), port.number)
        for name in lab.names
        for port in listening_ports(lab.processes(name, "dtfctl"))
    ]
    return there + [("127.0.0.1", port.number) for port in listening_ports([controller_pid(cluster)])]


def test_a_host_out_of_reach_is_kept_until_it_is_given_up_and_ends_what_it_runs(
    home: Path, lab: Lab, tmp_path: Path
) -> None:
    """Nobody gets in afterwards with what proved who he was before."""
    # One login at a time, as `up --parallel 1` has it.
    spec = cluster_of(lab, health=SHORT, ssh=ssh_of(lab, parallel=1, timeout=5.0, retries=0))
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    former = identities(home, lab, tmp_path / "former")
    assert {name.cert.stem for name in former} >= {"cli", "controller", "task-ps-0", "task-worker-0", "task-worker-1"}
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
    again = Cluster.up(spec)
    assert (again.exit_code, again.running) == (0, 3), again.problems
    assert again.cluster is not None
    mine = TlsFiles.of(ClusterPaths.of("t").certificates, "cli")
    found = doors(lab, again.cluster)
    assert len(found) >= 7, "the controller, three agents, three tasks"
    welcome = [greet(port, mine, PREFACE, address) for address, port in found]
    assert welcome.count("answered") >= 7 and "refused" not in welcome, "nobody is let in, so this shows nothing"
    for address, port in found:
        told = {files.cert.stem: greet(port, files, PREFACE, address) for files in former}
        assert "answered" not in told.values(), (address, port, told)
    assert again.cluster.down(grace_s=0.5) == ()
    assert lab.processes(gone, "dtfctl") == []
