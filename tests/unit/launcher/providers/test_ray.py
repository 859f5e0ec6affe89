"""What is asked of Ray, and what holds a command on one of its nodes; `tests/ray` does it with a real one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dtfctl.launcher.controller.decisions.changes import check_possible
from dtfctl.launcher.errors import ClusterFailed, Conflict
from dtfctl.launcher.providers.ray.allocation import bundle_of
from dtfctl.launcher.providers.ray.bridge import HOLDER
from dtfctl.launcher.providers.ray.client import python_of
from dtfctl.launcher.spec.document import from_json, to_json
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import Ray
from dtfctl.launcher.spec.problems import InvalidSpec

SPEC = "cluster: lab\nprovider: ray\nray: {hosts: 2, cpus: 4, gpus: 1, memory: 1GiB, slots: 2}\ntasks: {worker: 3}\n"


def test_hosts_are_named_by_their_number_and_asked_for_as_bundles() -> None:
    spec = parse_spec(SPEC)
    assert [host.name for host in spec.hosts] == ["ray-0", "ray-1"]
    assert bundle_of(spec.ray) == {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**30}
    assert bundle_of(Ray(cpus=0.0)), "an empty bundle is refused by Ray"
    assert from_json(to_json(spec)) == spec


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("hosts: n[1-2]\n", "names the hosts itself"),
        ("ssh: {user: ann}\n", "does not log in"),
        ("controller: host\n", "would end with it"),
        ("slurm: {nodes: 2}\n", "without `provider: slurm`"),
        ("ray: {hosts: 1, slots: 2}\n", "3 slots"),
        ("ray: {address: 'ray://head:10001'}\n", "address"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_file(change: str, problem: str) -> None:
    lines = [line for line in SPEC.splitlines() if line.partition(":")[0] != change.partition(":")[0]]
    with pytest.raises(InvalidSpec) as caught:
        parse_spec("\n".join([*lines, change]))
    assert problem in str(caught.value)


def test_what_was_asked_of_ray_stays_while_the_cluster_is_up() -> None:
    with pytest.raises(Conflict, match="what is asked of Ray"):
        check_possible(parse_spec(SPEC), parse_spec(SPEC.replace("hosts: 2", "hosts: 3")))
    check_possible(parse_spec(SPEC), parse_spec(SPEC.replace("slots: 2", "slots: 3")))


def test_a_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterFailed, match="is not there"):
        python_of(Ray(python="/nowhere/python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ClusterFailed, match="no command `ray`"):
        python_of(Ray())


def begin(command: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Begin a command as an actor does."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLDER, str(theirs.fileno()), command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    process.wait()
    return process, ours


def test_a_command_says_how_it_ended_and_has_its_pipes() -> None:
    process, life = begin("read word; echo got $word; exit 7")
    with life:
        assert process.communicate(b"it\n")[0] == b"got it\n"
        assert life.recv(64) == b"7\n"
    process, life = begin("kill -KILL $$")
    with life:
        assert (process.communicate()[0], life.recv(64)) == (b"", b"137\n")


def test_daemons_of_a_command_end_when_its_actor_does() -> None:
    process, life = begin("setsid sh -c 'sleep 1000 & echo $!; sleep 1000' & sleep 0; exit 0")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    fd = os.pidfd_open(pid)
    assert life.recv(64) == b"0\n", "the command itself has ended"
    signal.pidfd_send_signal(fd, 0)
    life.close()
    assert process.stdout.read() == b"", "nothing is left that could write there"
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
    os.close(fd)
