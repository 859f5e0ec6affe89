"""A process of a group that does nothing any more is named, and not killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.agent.units.health_check import Finding, judge_idle
from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.agent.units.job_unit import JobUnit
from dtfctl.launcher.agent.units.lifecycle import Record
from dtfctl.launcher.messages.orders import ClientOrder
from tests.support.waiting import wait_until

LIMITS = HealthLimits(progress_s=60.0)


def test_an_idle_process_is_named_once_and_again_when_it_works() -> None:
    assert judge_idle(59.0, LIMITS, was_suspect=False) is None
    found = judge_idle(61.0, LIMITS, was_suspect=False)
    assert found is not None
    assert (found.verdict, found.reason) == (
        "suspect",
        "idle: it has used no processor time for 61 s, and reports no progress",
    )
    assert judge_idle(62.0, LIMITS, was_suspect=True) is None
    again = judge_idle(0.5, LIMITS, was_suspect=True)
    assert again is not None and again.verdict == "healthy"


class Host:
    """A host whose `nvidia-smi` says what the test does, and a rank on it with the first of its two GPUs."""

    def __init__(self, state: HostUnits, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._said = folder / "said"
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat {self._said}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        self._state = state
        self.rank = JobUnit("job:j-1:worker/0", Record(state="running", incarnation=1, gpus=(0,)), state)
        self.rank.order = ClientOrder("j-1", "worker", 0, gpu_count=1, restart=RestartPolicy(together=True))
        self.rank.watch(LIMITS, 0.0)

    def says(self, text: str) -> None:
        self._said.write_text(text)

    def judge_with_a_look(self, now: float) -> Finding | None:
        """Judge before a look is through, which says nothing, and after it."""
        assert self.rank.judge(LIMITS, now) is None
        wait_until(lambda: (look := self._state.gpus.look(now, 1e9)) is not None and look.at == now, "a look")
        return self.rank.judge(LIMITS, now)


@pytest.fixture
def host(state: HostUnits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(state, tmp_path, monkeypatch)


def test_a_rank_whose_gpu_works_is_not_idle_and_one_whose_gpu_rests_too_is(host: Host) -> None:
    host.says("0, 97\n1, 0\n")
    assert host.judge_with_a_look(61.0) is None, "it waits for its GPU"
    host.says("0, 0\n1, 100\n")
    found = host.judge_with_a_look(61.0 + 62.0)
    assert found == Finding(
        "suspect",
        "idle: it has used no processor time for 62 s, GPU 0 did nothing either, and reports no progress",
    )
    host.says("0, 12\n1, 100\n")
    again = host.judge_with_a_look(61.0 + 80.0)
    assert again == Finding("healthy", "works again")


def test_a_gpu_that_does_not_say_what_it_does_leaves_the_processor_to_judge_by(host: Host) -> None:
    host.says("0, [N/A]\n")
    found = host.judge_with_a_look(61.0)
    assert found is not None
    assert found.reason == "idle: it has used no processor time for 61 s, and reports no progress"


def test_a_rank_that_works_has_no_gpu_looked_at(host: Host, state: HostUnits) -> None:
    host.says("0, 0\n")
    host.rank.on_cpu(5.0, 5.0, 59.0)
    assert host.rank.judge(LIMITS, 61.0) is None
    host.rank.on_cpu(5.0, 5.0, 70.0)
    assert state.gpus.look(70.0, 1e9) is None, "this look is the first"


def test_one_that_does_nothing_for_long_says_so_until_it_works_again(host: Host) -> None:
    host.says("")
    assert host.judge_with_a_look(599.0) is not None
    assert host.rank.report().idle_s is None
    assert host.rank.judge(LIMITS, 601.0) is None
    assert host.rank.report().idle_s == 601.0
    assert host.rank.judge(LIMITS, 605.0) is None
    assert host.rank.report().idle_s == 601.0, "which is no news with each report"
    host.rank.on_cpu(1.0, 1.0, 650.0)
    host.rank.judge(LIMITS, 651.0)
    assert host.rank.report().idle_s is None


def test_a_thread_that_looks_at_its_clock_is_no_work(host: Host) -> None:
    """The kernel says so as a hundredth of a second every few seconds, all of it between two looks."""
    host.says("")
    for tick in range(1, 121):
        host.rank.on_cpu(0.01 if tick % 8 == 0 else 0.0, 0.5, tick / 2)
    found = host.judge_with_a_look(61.0)
    assert found is not None and found.verdict == "suspect"
    for tick in range(123, 123 + 20):  # a twentieth of a processor
        host.rank.on_cpu(0.03, 0.5, tick / 2)
    again = host.rank.judge(LIMITS, 71.5)
    assert again is not None and again.verdict == "healthy"
