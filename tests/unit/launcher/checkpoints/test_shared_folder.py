"""Whether a folder is one and the same on several hosts: what one host does, and what the controller makes of all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtfctl.health.monitor import HealthLimits, Monitor
from dtfctl.launcher.checkpoints.shared import PREFIX, prove
from dtfctl.launcher.controller.hosts.shared_folder import AGAIN_S, SharedFolder, ask
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.state.store import Store, read_events
from dtfctl.launcher.controller.workloads.statuses import Host, problems
from dtfctl.launcher.messages.agent import SharedStep
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.rpc.method import PeerUnavailable
from dtfctl.launcher.spec.model import Checkpoints, ClusterSpec, HostGroup, HostName, TaskGroup
from dtfctl.launcher.system.mailbox import Mailbox

TOKEN = "a" * 32


class Link:
    """A host that sees `root` where the spec says /ckpt."""

    def __init__(self, name: str, root: Path | None) -> None:
        self.name = name
        self.root = root

    def prove_shared(self, folder: str, token: str, step: SharedStep) -> str:
        if self.root is None:
            raise PeerUnavailable(f"the agent of {self.name} is not connected")
        return prove(str(self.root) + folder, token, self.name, step, find_s=0.0)


def test_a_token_is_found_where_the_folder_is_the_same_and_nothing_stays(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "ckpt"
    assert prove(str(folder), TOKEN, "a", "leave") == ""
    assert prove(str(folder), TOKEN, "b", "find") == ""
    assert prove(str(tmp_path), TOKEN, "c", "find", find_s=0.0) == "not shared"
    assert prove(str(tmp_path / "none"), TOKEN, "c", "find", find_s=0.0) == "not shared"
    assert prove(str(folder), TOKEN, "a", "take") == ""
    assert list(folder.iterdir()) == []


def test_what_a_controller_left_that_died_goes_and_no_token_is_a_path(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}{'b' * 32}"
    left.touch()
    os.utime(left, (0, 0))
    assert prove(str(tmp_path), TOKEN, "a", "leave") == ""
    assert not left.exists()
    assert prove(str(tmp_path), "../x", "a", "leave") == "that is no token"


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert prove(str(tmp_path / "file"), TOKEN, "a", "leave").startswith("cannot be written: ")


def test_hosts_that_see_another_folder_are_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    links: Any = [("a", Link("a", one)), ("b", Link("b", one)), ("c", Link("c", other))]
    found = ask("/ckpt", links)
    assert (found["a"], found["b"]) == ("", "")
    assert found["c"].startswith("checkpoints.path: /ckpt is not the same folder as on a; mount the shared disk")
    assert list(tmp_path.rglob(f"{PREFIX}*")) == []


def test_where_the_first_host_cannot_write_another_leaves_the_token(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "ckpt").touch()
    links: Any = [("a", Link("a", None)), ("b", Link("b", tmp_path / "bad")), ("c", Link("c", tmp_path))]
    links.append(("d", Link("d", tmp_path)))
    found = ask("/ckpt", links)
    assert "could not be looked at: the agent of a is not connected" in found["a"]
    assert "cannot be written" in found["b"]
    assert (found["c"], found["d"]) == ("", "")


class World:
    """A controller's hosts, and its loop's turns."""

    def __init__(self, tmp_path: Path, **roots: Path) -> None:
        self.mailbox = Mailbox()
        self.desired_state = DesiredState(Store(tmp_path / "db"))
        self.hosts = {name: self.host(Link(name, root)) for name, root in roots.items()}
        self.sharing = SharedFolder(self.desired_state, self.mailbox, self.hosts)
        self.set_folder("/ckpt")

    def set_folder(self, folder: str | None) -> None:
        names = tuple(HostName(name) for name in self.hosts)
        groups = {"all": HostGroup(names)}
        kept = Checkpoints(path=folder)
        self.desired_state.spec = ClusterSpec("t", {"worker": TaskGroup(2)}, host_groups=groups, checkpoints=kept)

    def host(self, link: Any) -> Host:
        host = Host(link, Monitor(HealthLimits()))
        host.state, host.report = "up", Report(link.name, boot="1")
        return host

    def turn(self, now: float = 0.0) -> None:
        self.sharing.look(now)
        while self.sharing._is_asking:
            self.mailbox.run_one(10.0)

    def problems(self) -> list[str]:
        return problems(self.hosts, {}, [])


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[..., World]:
    return lambda **roots: World(tmp_path, **{name: tmp_path / root for name, root in roots.items()})


def test_it_is_due_until_hosts_were_asked_and_told_as_a_problem_and_an_event(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    world = make_world(a="one", b="one", c="other")
    assert world.sharing.is_due
    assert world.sharing.problem == "it is not known yet whether all hosts share /ckpt"
    world.turn()
    assert not world.sharing.is_due
    assert world.sharing.problem.startswith("c: checkpoints.path: /ckpt is not the same folder as on a")
    (problem,) = world.problems()
    assert "c" in problem
    assert "/ckpt is not the same folder as on a" in problem
    events = [(event.kind, event.subject) for event in read_events(tmp_path / "db", 0, 0.0, 100)]
    assert events == [("host.not-shared", "host:c")]

    world.hosts["c"].link = Link("c", world.hosts["a"].link.root)  # type: ignore[assignment,attr-defined]
    world.turn()
    assert world.problems(), "asked again too early"
    world.turn(time.monotonic() + AGAIN_S + 1.0)
    assert world.problems() == []
    assert world.sharing.problem == ""


def test_a_host_whose_agent_is_another_one_is_asked_again_and_all_at_the_next_up(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    world = make_world(a="one", b="one")
    world.turn()
    world.hosts["a"].report = Report("a", boot="2")
    world.hosts["a"].link = Link("a", tmp_path / "unmounted")  # type: ignore[assignment]
    assert world.sharing.is_due
    world.turn()
    assert [host.unshared is not None for host in world.hosts.values()] == [True, False]
    world.sharing.again()
    assert world.sharing.is_due
    world.set_folder(None)
    world.turn()
    assert not world.sharing.is_due
    assert world.problems() == []


def test_one_host_needs_no_proof(make_world: Callable[..., World]) -> None:
    world = make_world(a="one")
    assert not world.sharing.is_due
