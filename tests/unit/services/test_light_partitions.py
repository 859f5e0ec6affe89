"""Which partitions run where their start was read: those that soon wait, or end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.rendezvous.reactor import Slot
from dtfctl.runtime.rendezvous.routing import Routes
from dtfctl.runtime.services import step_run
from dtfctl.runtime.services.step_run import StepRun
from dtfctl.runtime.services.tasks import RemotePart
from dtfctl.runtime.steps.coordinator import Parts
from dtfctl.runtime.steps.step import Step
from dtfctl.runtime.steps.threads import submit
from dtfctl.runtime.steps.worker_session import LIGHT_S, Partition

PS = "/job:ps/replica:0/task:0"


@dataclass
class InLine:
    """An executor that runs one node after the other."""

    runs_in_line: bool = True
    ends: Any = field(default=None)


def partition() -> Partition:
    return Partition(1, cast(Any, [InLine()]), [], frozenset(), cast(Any, None), cast(Any, None))


def test_a_partition_that_computes_much_but_waits_often_is_light() -> None:
    table = LocalRendezvous()
    table.waits, table.waited_s = 49, 1.0
    own = partition()
    own.ran(1.0 + 50 * LIGHT_S / 2, table)
    assert own.is_light


def test_one_that_computes_as_much_at_once_is_not() -> None:
    own = partition()
    own.ran(50 * LIGHT_S / 2, LocalRendezvous())
    assert not own.is_light


def test_receives_count_as_waits_only_where_the_value_is_not_there_yet() -> None:
    table, token = LocalRendezvous(), CancellationToken()
    table.send("there", 1, False)
    assert table.recv("there", token) == (1, False)
    assert table.waits == 0
    sent = submit(lambda: (wait_for_receive(table, "late"), table.send("late", 2, False)))
    assert table.recv("late", token) == (2, False)
    sent.result()
    assert table.waits == 1 and table.waited_s > 0


def wait_for_receive(table: LocalRendezvous, key: str) -> None:
    while key not in table._waiting:
        time.sleep(0.001)


@pytest.mark.parametrize("computes_long", [False, True])
def test_who_computes_long_does_not_take_the_links_from_their_own_thread_at_the_end(
    computes_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be gone when the next call arrives, which nobody would read until the own thread looked again."""
    step = Step(1, Routes("/job:worker/replica:0/task:0"), None, 0.0)
    step.table.leads = not computes_long
    run = StepRun(step, "session", Parts([PS]), {PS: cast(RemotePart, None)})
    led: list[bool] = []

    class Links:
        def wait(self, slot: Slot, lead: bool = True) -> None:
            led.append(lead)

    monkeypatch.setattr(step_run, "REACTOR", Links())
    run.wait()
    assert led == [not computes_long]
