"""What `up` puts on hosts: synchronised files, set-up, the environment; over jump hosts; and nothing twice."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import HostGroup, HostName, Ports, Sync, TaskGroup
from tests.cluster.conftest import STUB_COMMAND, pids, task
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import HOME, Lab
from tests.lab.test_up import run_job


def events_of(cluster: Cluster, kind: str) -> list[str]:
    return [event.reason for event in cluster.events() if event.kind == f"host.{kind}"]


def test_files_set_up_and_environment_are_there_and_come_again_only_when_they_changed(
    home: Path, lab: Lab, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "data" / "big.bin").write_bytes(b"x" * 1000)
    (project / "helper.py").write_text("WORD = 'first'\n")
    (project / "old.txt").write_text("goes away\n")
    (tmp_path / "one.json").write_text("{}")
    (project / "job.py").write_text("import os, helper\nprint(helper.WORD, os.environ['FLAVOUR'], os.getcwd())\n")
    spec = cluster_of(
        lab,
        ps=0,
        worker=3,
        sync=(Sync(str(project), "~/project", ("data/",)), Sync(str(tmp_path / "one.json"), "~/etc/settings.json")),
        setup=("echo set up in $PWD with $FLAVOUR >> ~/setups", "test -f helper.py"),
        env={"FLAVOUR": "vanilla"},
        ports=Ports(23450, 23459),
    )
    cluster = Cluster.up(spec, task_command=STUB_COMMAND).cluster
    assert cluster is not None
    assert len(events_of(cluster, "syncing")) == 2 * len(lab.names)
    for name in lab.names:
        there = lab.home(name)
        assert (there / "project/helper.py").read_text() == "WORD = 'first'\n"
        assert not (there / "project/data").exists()
        assert (there / "etc/settings.json").read_text() == "{}"
        assert (there / "setups").read_text() == f"set up in {HOME}/project with vanilla\n"
    assert 23450 <= int(task(cluster, "worker/0").address.rpartition(":")[2]) <= 23459

    ended, output = run_job(cluster, JobRequest(str(project / "job.py"), cwd=str(project)))
    assert ended.state == "succeeded", output
    assert re.search(rf"first vanilla {HOME}/project$", output, re.MULTILINE)
    before = pids(cluster)
    (project / "helper.py").write_text("WORD = 'changed while it runs'\n")
    assert Cluster.up(spec, task_command=STUB_COMMAND).exit_code == 0
    for name in lab.names:
        assert "changed while it runs" in (lab.home(name) / "project/helper.py").read_text()
    assert pids(cluster) == before
    assert cluster.down() == ()

    (project / "helper.py").write_text("WORD = 'second'\n")
    (project / "old.txt").unlink()
    cluster = Cluster.up(spec, task_command=STUB_COMMAND).cluster
    assert cluster is not None
    assert len(events_of(cluster, "syncing")) == len(lab.names), "only the folder that changed was sent"
    assert events_of(cluster, "installing") == []
    for name in lab.names:
        assert (lab.home(name) / "project/helper.py").read_text() == "WORD = 'second'\n"
        assert not (lab.home(name) / "project/old.txt").exists()
        assert (lab.home(name) / "setups").read_text().count("set up in") == 3, "other files: set up again"
    assert cluster.down() == ()
    cluster = Cluster.up(spec, task_command=STUB_COMMAND).cluster
    assert cluster is not None
    assert events_of(cluster, "setup") == [], "set up already"


def test_a_set_up_that_fails_says_its_last_words(home: Path, lab: Lab) -> None:
    spec = cluster_of(lab, ps=0, worker=3, setup=("echo no such thing >&2; exit 3",))
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (1, 0)
    (problem,) = result.problems
    assert f"{lab.net}.[11-13]: " in problem
    assert "ended with 3: no such thing" in problem


def test_over_two_jump_hosts_and_beside_localhost(home: Path, lab: Lab, tmp_path: Path) -> None:
    """The last host takes SSH from its neighbour only, and that one from the first."""
    first, second, last = lab.names
    with lab.shut(second, but=first), lab.shut(last, but=second):
        path = (f"root@{lab.address_of(first)}", f"{lab.address_of(second)}:22")
        spec = cluster_of(
            lab,
            tasks={"ps": TaskGroup(1, hosts=("here",)), "worker": TaskGroup(1, hosts=("there",))},
            host_groups={
                "here": HostGroup((HostName("localhost"),)),
                "there": HostGroup((HostName(lab.address_of(last)),)),
            },
            ssh=ssh_of(lab, jump=path),
        )
        result = Cluster.up(spec, task_command=STUB_COMMAND)
        assert result.exit_code == 0, result.problems
        cluster = result.cluster
        assert cluster is not None
        assert task(cluster, "ps/0").address.startswith(f"{lab.gateway}:"), "the other host reaches it there"
        assert cluster.down() == ()


def test_names_users_and_jumps_come_from_the_ssh_config(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "me" / ".ssh"
    ssh.mkdir(parents=True)
    ssh.joinpath("known_hosts").write_bytes(lab.known_hosts.read_bytes())
    lines = [f"Host box-{n}\n  HostName {host.address}\n" for n, host in enumerate(lab.hosts)]
    config = "".join([*lines, f"Host box-2\n  ProxyJump box-0\nHost *\n  User root\n  IdentityFile {lab.key}\n"])
    ssh.joinpath("config").write_text(config)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    names = tuple(HostName(f"box-{n}") for n in (1, 2))
    spec = cluster_of(lab, ps=1, worker=1, host_groups={"all": HostGroup(names)}, ssh=ssh_of(lab).__class__())
    with contextlib.ExitStack() as stack:
        stack.callback(lab.mend, lab.names[2])
        lab.split(lab.names[2], lab.gateway)
        result = Cluster.up(spec, task_command=STUB_COMMAND)
        assert result.exit_code == 0, result.problems
        assert result.cluster is not None
        status = result.cluster.status()
        assert {item.host for item in status.tasks} == {"box-1", "box-2"}
        assert {host.name: host.through for host in status.hosts} == {"box-1": "", "box-2": "SSH over box-0"}
        assert result.cluster.down() == ()


def test_a_pinned_host_key_is_accepted_once_and_then_is_the_only_one(home: Path, lab: Lab, tmp_path: Path) -> None:
    spec = cluster_of(
        lab, ps=0, worker=3, slots=1, ssh=ssh_of(lab, known_hosts=str(tmp_path / "none"), host_keys="pin")
    )
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert result.exit_code == 0
    assert result.cluster is not None
    assert result.cluster.down() == ()
    pins = home / "known_hosts"
    assert sorted(line.split()[0] for line in pins.read_text().splitlines()) == [host.address for host in lab.hosts]
    lab.rekey(lab.names[1])
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (1, 2), result.problems
    line = next(n for n, text in enumerate(pins.read_text().splitlines(), 1) if text.startswith(f"{lab.net}.12 "))
    assert f"{lab.net}.12: host key changed (known_hosts:{line})" in result.problems
