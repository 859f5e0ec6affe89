"""Commands, files and logs of hosts that are reached by SSH only to start their agents; and the system's ssh itself."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from tests.cluster.commands import Shell
from tests.cluster.conftest import STUB_COMMAND
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab


def own_ssh(base: Path) -> Path:
    """A folder with an `ssh` that reads no settings; it would take those of the account, whatever HOME says."""
    folder = base / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F none "$@"\n')
    (folder / "ssh").chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def shell(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    base = tmp_path_factory.mktemp("access")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(base / "home"))
        result = Cluster.up(cluster_of(lab), task_command=STUB_COMMAND)
        assert (result.exit_code, result.running) == (0, 3)
        yield Shell(base, {**os.environ, "NO_COLOR": "1", "PATH": f"{own_ssh(base)}:{os.environ['PATH']}"})
        assert result.cluster is not None
        result.cluster.down(grace_s=1.0)


def test_a_command_runs_on_every_host(shell: Shell, lab: Lab) -> None:
    done = shell.process("exec", "all", "--", "uname", "-n")
    assert done.returncode == 0, done.stderr
    lines = [line.split(" | ") for line in done.stdout.decode().splitlines()]
    assert sorted(name for _, name in lines) == sorted(lab.names)
    lost = shell.process("exec", f"host:{lab.hosts[2].address}", "--", "sh", "-c", "exit 41")
    assert lost.returncode == 41


def test_files_go_to_every_host_and_back(shell: Shell, lab: Lab) -> None:
    source = shell.folder / "data.bin"
    source.write_bytes(os.urandom(3_000_000))
    assert shell("put", str(source), "all:/tmp/access-data.bin").returncode == 0
    sums = shell.process("exec", "all", "--", "sha256sum", "/tmp/access-data.bin").stdout.decode()
    assert sums.count(hashlib.sha256(source.read_bytes()).hexdigest()) == 3
    assert shell("get", "worker:/tmp/access-data.bin", str(shell.folder / "back")).returncode == 0
    for name in ("worker-0", "worker-1"):
        assert (shell.folder / "back" / name / "access-data.bin").read_bytes() == source.read_bytes()


def test_logs_of_tasks_and_of_a_remote_agent(shell: Shell, lab: Lab) -> None:
    sources = {line.split(" | ")[0].strip() for line in shell("logs").stdout.splitlines()}
    assert sources == {"ps/0", "worker/0", "worker/1"}
    host = lab.hosts[1].address
    told = shell("logs", f"agent:{host}", "--grep", "started|running")
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip(), "the agent has said something"
    assert shell("logs", "agent:nowhere").returncode == 4


def test_doctor_asks_every_host(shell: Shell, lab: Lab) -> None:
    found = shell.json("doctor")
    asked = {item["subject"] for item in found["findings"] if item["check"] == "agent" and item["level"] == "ok"}
    assert asked == {f"host:{host.address}" for host in lab.hosts}


def test_links_between_hosts_are_measured_and_one_that_has_become_slow_is_an_event(shell: Shell, lab: Lab) -> None:
    names = sorted(host.address for host in lab.hosts)
    found = shell.json("doctor", "--links")["links"]
    assert [(link["source"], link["target"]) for link in found] == [(a, b) for a in names for b in names if a != b]
    assert all(link["bytes_s"] > 0 and link["round_trip_s"] > 0 and not link["problem"] for link in found)
    kept = shell.json("status")["links"]
    assert kept == found
    assert "ROUND TRIP" in shell("status", "-o", "wide").stdout
    slow = lab.hosts[1].address
    lab.slow(lab.names[1], "20mbit")
    try:
        assert shell("doctor", "--links").returncode == 0
    finally:
        lab.mend(lab.names[1])
    events = [json.loads(line) for line in shell("events", "-o", "json").stdout.splitlines()]
    told = [event for event in events if event["event"] == "link.degraded"]
    worse = {(event["subject"].removeprefix("host:"), event["reason"].split()[1].rstrip(":")) for event in told}
    others = [name for name in names if name != slow]
    assert {(slow, other) for other in others} | {(other, slow) for other in others} <= worse


def test_the_systems_ssh_logs_in_as_the_spec_says(shell: Shell, lab: Lab) -> None:
    address = lab.hosts[0].address
    for name in (address, f"host:{address}"):
        done = shell.process("ssh", name, "uname", "-n")
        assert (done.returncode, done.stdout.decode().strip()) == (0, lab.names[0]), done.stderr
    for rest in (["--", "uname", "-n"], ["--", "-o", "LogLevel=ERROR", "uname", "-n"]):
        done = shell.process("ssh", address, *rest)
        assert (done.returncode, done.stdout.decode().strip()) == (0, lab.names[0]), done.stderr
    words = Cluster.open().ssh_command(address)
    assert words[0] == "ssh" and str(lab.key) in words
    assert "StrictHostKeyChecking=yes" in words
    refused = subprocess.run(
        [words[0], "-F", "none", "-o", f"UserKnownHostsFile={Path('/dev/null')}", "-o", "BatchMode=yes", *words[1:-1]]
        + [words[-1], "true"],
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 255, "a host whose key nobody knows is not talked to"
