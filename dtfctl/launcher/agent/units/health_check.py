"""Tell whether a process is well, from what is known of it at a beat. Pure; units keep what they need for it."""

from __future__ import annotations

from typing import Literal

from dtfctl.health.monitor import HealthLimits
from dtfctl.launcher.model import Progress, TaskHealth
from dtfctl.values import value


@value
class Finding:
    """News about a process: `down` means that it is to be killed."""

    verdict: Literal["down", "suspect", "healthy"]
    reason: str
    wants_stacks: bool = False
    """Whether it is worth knowing where the process's threads stand."""


def judge_beats(
    before: TaskHealth, health: TaskHealth, silence: str, is_stopped: bool, *, is_stuck: bool
) -> Finding | None:
    """Say what a task's change of health means; `silence` says of what. `is_stopped`: by a signal. `is_stuck`: as it
    says itself."""
    if health == before:
        return None
    if health == "down":
        why = f"{'stopped by a signal' if is_stopped else 'hangs'}: {silence}"
        # Who says that it is stuck can also say where.
        return Finding("down", why, wants_stacks=is_stuck and not is_stopped)
    if health == "suspect":
        return Finding("suspect", silence)
    return Finding("healthy", "beats again") if before == "suspect" else None


def judge_stopped(stopped_since: float | None, limits: HealthLimits, now: float) -> Finding | None:
    """Judge a job's process, which sends no beats: one that is stopped is no use to anybody."""
    stopped_s = 0.0 if stopped_since is None else now - stopped_since
    return Finding("down", f"stopped by a signal for {stopped_s:.1f} s") if stopped_s >= limits.down_after_s else None


def judge_idle(idle_s: float, limits: HealthLimits, *, was_suspect: bool, gpus: str = "") -> Finding | None:
    """Judge a process of a group that says nothing of its progress: one that uses no processor time may wait for ever.

    It is not killed for that: it may wait for another, and that one for its data. That none of a group works is for
    the controller to see. `gpus`: those that it has, and that
    did nothing either; one that keeps a GPU busy is not idle.
    """
    if idle_s >= limits.progress_s:
        too = f"{gpus} did nothing either" if gpus else ""
        words = ", ".join(part for part in (f"it has used no processor time for {idle_s:.0f} s", too) if part)
        return None if was_suspect else Finding("suspect", f"idle: {words}, and reports no progress")
    return Finding("healthy", "works again") if was_suspect else None


def judge_progress(latest: Progress, still_s: float, limits: HealthLimits, *, has_advanced: bool) -> Finding | None:
    """Judge a job's process that has reported progress: it hangs if it gets no further though all tasks are there."""
    is_done = latest.total is not None and latest.step >= latest.total
    # After a start there are modules to import and a checkpoint to read before the first step.
    if is_done or still_s < (limits.progress_s if has_advanced else limits.startup_s):
        return None
    return Finding("down", f"hangs: no progress since step {latest.step} for {still_s:.0f} s", wants_stacks=True)
