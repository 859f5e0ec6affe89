"""Is this process well? What the agent finds at every beat."""

from __future__ import annotations

from typing import Literal

from dtfctl.health.monitor import HealthLimits
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.values import value


@value
class Finding:
    """News about a process: `down` means that it is to be killed."""

    verdict: Literal["down", "suspect", "healthy"]
    reason: str
    wants_stacks: bool = False
    """Where its threads stand is worth knowing."""


def judge(unit: Unit, limits: HealthLimits, now: float) -> Finding | None:
    """What has changed about it, if anything. Notes the verdict in `unit.health`."""
    record = unit.record
    if record.state == "starting" and unit.is_task and record.started_at is not None:
        late = now - record.started_at > limits.startup_s
        return Finding("down", f"not ready after {limits.startup_s:.0f} s") if late else None
    if record.state != "running":
        return None
    return _stopped(unit, limits, now) if unit.monitor is None else _beats(unit, now)


def stands_still(unit: Unit, limits: HealthLimits, now: float, *, is_whole: bool) -> Finding | None:
    """A process of a job that has reported progress before, and gets no further though all tasks are there, hangs."""
    latest = None if unit.progress is None else unit.progress.latest
    if unit.record.state != "running" or latest is None or not is_whole:
        unit.advanced_at = now
        return None
    is_done = latest.total is not None and latest.step >= latest.total
    still = now - unit.advanced_at
    # After a start there are modules to import and a checkpoint to read before the first step.
    if is_done or still < (limits.progress_s if unit.has_advanced else limits.startup_s):
        return None
    return Finding("down", f"hangs: no progress since step {latest.step} for {still:.0f} s", wants_stacks=True)


def _stopped(unit: Unit, limits: HealthLimits, now: float) -> Finding | None:
    """A job's process sends no beats; but one that is stopped is no use to anybody."""
    stopped_s = 0.0 if unit.stopped_since is None else now - unit.stopped_since
    return Finding("down", f"stopped by a signal for {stopped_s:.1f} s") if stopped_s >= limits.down_after_s else None


def _beats(unit: Unit, now: float) -> Finding | None:
    assert unit.monitor is not None
    before, unit.health = unit.health, unit.monitor.tick(now)
    if unit.health == before:
        return None
    silence = unit.stuck or f"no beat for {unit.monitor.silence_s(now):.1f} s"
    if unit.health == "down":
        is_stopped = unit.stopped_since is not None
        why = f"{'stopped by a signal' if is_stopped else 'hangs'}: {silence}"
        # Who says that it is stuck can also say where.
        return Finding("down", why, wants_stacks=bool(unit.stuck) and not is_stopped)
    if unit.health == "suspect":
        return Finding("suspect", silence)
    return Finding("healthy", "beats again") if before == "suspect" else None
