"""What is told of hosts that are lent, and what is done when their time ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from dtfctl.launcher.controller.hosts.lending import Lending, left_words
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.state.store import Store, read_events
from dtfctl.launcher.providers.base import Grant
from dtfctl.launcher.spec.load import parse_spec

NODES = {"slurm-0": "n1", "slurm-1": "n2"}


class Lender:
    """Who lends the hosts."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def begin_anew(self) -> None:
        self.asked.set()


class Setting:
    """What is lent to a cluster, and what is told of it."""

    def __init__(self, folder: Path, slurm: str) -> None:
        self._path = folder / "db"
        state = DesiredState(Store(self._path))
        state.store.set_spec(parse_spec(f"cluster: t\nprovider: slurm\nslurm: {{{slurm}}}\ntasks: {{worker: 1}}\n"))
        state.load()
        self.lender = Lender()
        self.lending = Lending(state, cast(Any, self.lender))

    def told(self) -> list[str]:
        return [event.kind.removeprefix("allocation.") for event in read_events(self._path, 0, 0.0, 100)]


def lent(left_s: float, number: int = 0, **more: Any) -> Grant:
    given: dict[str, Any] = {"nodes": NODES, "ends": time.time() + left_s, "is_ours": True, "number": number, **more}
    return Grant("granted", "Slurm job 17", **given)


def test_its_end_is_told_when_it_comes_near_and_jobs_are_to_save(tmp_path: Path) -> None:
    at = Setting(tmp_path, "margin: 2m")
    grant = lent(1000.0)
    at.lending.changed(grant, NODES)
    assert grant.ends is not None
    for left in (950.0, 890.0, 800.0, 121.0):
        at.lending.look(grant.ends - left)
    assert (at.told(), at.lending.save) == (["granted", "ending"], 0)
    at.lending.look(grant.ends - 119.0)
    at.lending.look(grant.ends - 30.0)
    assert at.told() == ["granted", "ending", "ending"]
    assert at.lending.save > 0
    assert not at.lender.asked.is_set()


def test_it_is_given_back_once_for_another_where_that_is_wanted(tmp_path: Path) -> None:
    at = Setting(tmp_path, "margin: 2m, on_limit: requeue")
    grant = lent(1000.0)
    at.lending.changed(grant, NODES)
    assert grant.ends is not None
    at.lending.look(grant.ends - 100.0)
    assert not at.lender.asked.is_set()
    at.lending.look(grant.ends - 59.0)
    assert at.lender.asked.wait(60.0)
    at.lending.look(grant.ends - 58.0)
    assert at.told().count("requeued") == 1


def test_what_the_user_has_asked_for_is_not_given_back(tmp_path: Path) -> None:
    at = Setting(tmp_path, "margin: 2m, on_limit: requeue")
    at.lending.changed(lent(10.0, is_ours=False), NODES)
    at.lending.look(time.time())
    assert "requeued" not in at.told()
    assert not at.lending.ends_all


def test_only_another_granting_makes_all_anew(tmp_path: Path) -> None:
    at = Setting(tmp_path, "nodes: 2")
    first = lent(1000.0)
    queued = Grant("queued", "Slurm job 17", "Resources", is_ours=True)
    assert not at.lending.changed(queued, NODES)
    assert not at.lending.changed(first, NODES)
    assert not at.lending.changed(lent(2000.0, nodes={"slurm-0": "n1"}), NODES)
    assert at.lending.changed(Grant("queued", "Slurm job 17", "BeginTime", is_ours=True, number=1), NODES)
    assert not at.lending.changed(lent(1000.0, number=1), NODES)
    assert not at.lending.changed(Grant("ended", "Slurm job 17", "was cancelled", number=1), NODES)
    assert at.told() == ["queued", "granted", "node-lost", "queued", "granted", "ended"]
    status = at.lending.status()
    assert status is not None and (status.state, status.why) == ("ended", "was cancelled")
    assert at.lending.again()
    assert at.lending.status() is None


@pytest.mark.parametrize(("seconds", "words"), [(36000.0, "10 h"), (1080.0, "18 min"), (75.0, "75 s"), (-3.0, "0 s")])
def test_time_that_is_left_is_told_coarsely(seconds: float, words: str) -> None:
    assert left_words(seconds) == words


def test_hosts_that_are_lent_one_by_one_begin_anew_one_by_one(tmp_path: Path) -> None:
    at = Setting(tmp_path, "nodes: 2, min: 1")
    lives = {"slurm-0": "17.0", "slurm-1": "18.0"}
    assert list(at.lending.changed(lent(9000.0, lives=lives), NODES)) == []
    alone = lent(9000.0, 1, lives={"slurm-0": "17.0"}, nodes={"slurm-0": "n1"})
    assert list(at.lending.changed(alone, NODES)) == []
    assert list(at.lending.changed(lent(9000.0, 1, lives={**lives, "slurm-1": "18.1"}), NODES)) == ["slurm-1"]
    assert at.told() == ["granted", "node-lost", "granted"]
