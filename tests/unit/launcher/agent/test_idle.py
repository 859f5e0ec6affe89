"""A process of a group that does nothing any more is named, and not killed."""

from __future__ import annotations

from dtfctl.health.monitor import HealthLimits
from dtfctl.launcher.agent.units.health_check import judge_idle

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
