"""What `up` says and does when some hosts cannot be used: grouped by cause, the others come up, nothing half-made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import HostGroup, HostName, TaskGroup
from tests.cluster.conftest import STUB_COMMAND
from tests.lab.conftest import cluster_of, ssh_of
from tests.lab.netns import HOME, Lab


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    """Seven hosts; six of them are bad, each in its way."""
    lab = make_lab(7)
    good, rekeyed, rekeyed_too, locked, dark, full, bare = lab.names
    lab.rekey(rekeyed)
    lab.rekey(rekeyed_too)
    lab.forbid_login(locked)
    lab.cut(dark)
    lab.full(full, f"{HOME}/.dtfctl", "1m")
    lab.hide_python(bare)
    assert good
    return lab


def test_bad_hosts_are_named_by_cause_and_the_good_one_comes_up(home: Path, lab: Lab) -> None:
    names = tuple(HostName(host.address) for host in lab.hosts)
    spec = cluster_of(
        lab,
        tasks={"worker": TaskGroup(7, min=1)},
        host_groups={"all": HostGroup(names, slots=1)},
        ssh=ssh_of(lab, timeout=15.0, retries=0),
    )
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running, result.wanted) == (5, 1, 7)
    by_host = {host.name: (host.cause, host.where) for host in result.cluster.status().hosts}  # type: ignore[union-attr]
    causes = [by_host[host.address] for host in lab.hosts]
    assert causes == [
        ("", ""),
        ("host-key", "known_hosts:2"),
        ("host-key", "known_hosts:3"),
        ("auth", ""),
        ("unreachable", ""),
        ("disk", ""),
        ("python", ""),
    ]
    two = f"{lab.net}.[12-13]: host key changed (known_hosts:2,3)"
    assert two in result.problems
    assert f"{lab.net}.14: authentication failed for user root" in result.problems
    assert any(line.startswith(f"{lab.net}.15: no ") for line in result.problems), result.problems
    assert any(line.startswith(f"{lab.net}.16: no space") for line in result.problems), result.problems
    assert f"{lab.net}.17: no Python 3.11 or newer" in result.problems
    for name in lab.names[1:]:
        assert lab.left_over(name) == []
        assert not (lab.home(name) / ".dtfctl" / "clusters").exists()


def test_exit_6_when_no_host_lets_us_in_and_nothing_when_it_does_again(home: Path, lab: Lab, tmp_path: Path) -> None:
    spec = tmp_path / "c.yaml"
    addresses = f"{lab.net}.[12,14]"
    text = f"cluster: t\nhosts: root@{addresses}\nssh: {{key: {lab.key}, known_hosts: {lab.known_hosts}}}\n"
    spec.write_text(f"{text}tasks: {{worker: 2}}\n")
    command = [sys.executable, "-m", "dtfctl", "up", str(spec)]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 6, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["running"], shown["wanted"]) == (0, 2)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert f"{lab.net}.12: host key changed (known_hosts:2)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(autouse=True)
def nothing_left(lab: Lab) -> Iterator[None]:
    yield
    for name in lab.names:
        for pid in lab.left_over(name):
            raise AssertionError(f"{name} still runs {pid}")
