"""What tasks' steps spend too much of their time on, by what the tasks count about themselves.

A share is of a window, as that of one step says little, and counts when it has been too large for a while.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtfctl.figures import TaskFigures
from dtfctl.launcher.controller.decisions.link_faults import LinkNews

LOOK_S = 2.0
WINDOW_S = 20.0
LEAST_STEPS = 20
"""Fewer in a window say nothing."""
HOLD_S = 60.0
"""How long it lasts before it is told."""
WAITS_MUCH = 0.2
"""Bounds the part of a step that waits for something from another task."""
LAGS_MUCH = 1.5
"""Bounds how many times as long as the fastest worker's steps a worker's take."""
WELL = 0.8
"""What was told is over below this part of a threshold."""


@dataclass(frozen=True)
class _Sample:
    at: float
    steps: int
    seconds: float
    waited: float


@dataclass
class _Finding:
    since: float
    value: float = 0.0
    text: str = ""
    is_told: bool = False


@dataclass
class _Task:
    samples: deque[_Sample] = field(default_factory=deque)
    findings: dict[str, _Finding] = field(default_factory=dict)


class StepTimes:
    """Fed with what tasks count, by the controller's loop. A ps has little else to do than to wait for workers."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._looked_at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Tell whether it is time to look again."""
        return now - self._looked_at >= LOOK_S

    def look(self, figures: Mapping[str, TaskFigures], groups: Sequence[Sequence[str]], now: float) -> list[LinkNews]:
        """Find what is new.

        Args:
            figures: of the tasks that run, by name; what is not there is forgotten.
            groups: the tasks of each job that runs: only steps of one job are alike.
        """
        self._looked_at = now
        for name in [name for name in self._tasks if name not in figures]:
            del self._tasks[name]
        lasting: dict[str, float] = {}
        waiting: dict[str, float] = {}
        for name, counted in figures.items():
            if name.startswith("ps/"):
                continue
            window = _window(self._tasks.setdefault(name, _Task()).samples, counted, now)
            if window is not None:
                steps, seconds, waited = window
                lasting[name], waiting[name] = seconds / steps, min(waited / seconds, 1.0) if seconds else 0.0
        news = []
        fastest = _fastest(groups, lasting)
        for name, task in self._tasks.items():
            other = fastest.get(name, name)
            lags = lasting[name] / lasting[other] if lasting.get(other) else 0.0
            news += _judge(task, name, "waits", waiting.get(name, 0.0), WAITS_MUCH, _waits(name, waiting), now)
            news += _judge(task, name, "lags", lags, LAGS_MUCH, _lags(name, lags, other), now)
        return news

    def advice(self) -> tuple[str, ...]:
        """List what lasts, a sentence each."""
        return tuple(
            finding.text for task in self._tasks.values() for finding in task.findings.values() if finding.is_told
        )


def _fastest(groups: Sequence[Sequence[str]], lasting: Mapping[str, float]) -> dict[str, str]:
    """Find for each worker of a job the one whose steps are shortest; none for those that several jobs share."""
    jobs = Counter(name for group in groups for name in group)
    found = {}
    for group in groups:
        alike = [name for name in group if name.startswith("worker/") and name in lasting and jobs[name] == 1]
        if len(alike) > 1:
            found.update(dict.fromkeys(alike, min(alike, key=lambda name: lasting[name])))
    return found


def _window(samples: deque[_Sample], counted: TaskFigures, now: float) -> tuple[int, float, float] | None:
    """Take a new sample; (steps, their seconds, waited) of the window, or None where too little ran."""
    newest = _Sample(now, sum(counted.step_counts), counted.steps_s, counted.waited_s)
    if samples and newest.steps < samples[-1].steps:
        samples.clear()  # it was started again
    samples.append(newest)
    while len(samples) > 1 and now - samples[1].at >= WINDOW_S:
        samples.popleft()
    first = samples[0]
    steps = newest.steps - first.steps
    if now - first.at < WINDOW_S or steps < LEAST_STEPS:
        return None
    return steps, newest.seconds - first.seconds, newest.waited - first.waited


def _judge(task: _Task, name: str, kind: str, value: float, threshold: float, text: str, now: float) -> list[LinkNews]:
    found = task.findings.get(kind)
    if found is None:
        if value >= threshold:
            task.findings[kind] = _Finding(now, value, text)
        return []
    if value < threshold * (WELL if found.is_told else 1.0):
        del task.findings[kind]
        return [LinkNews(f"steps.{kind}-no-more", name, "")] if found.is_told else []
    found.value, found.text = value, text
    if found.is_told or now - found.since < HOLD_S:
        return []
    found.is_told = True
    return [LinkNews(f"steps.{kind}", name, text)]


def _waits(name: str, waiting: Mapping[str, float]) -> str:
    return (
        f"{name} waits {waiting.get(name, 0.0):.0%} of its steps for other tasks (more than {WAITS_MUCH:.0%} is much): "
        "dtfctl profile says for which; send less (runtime.compression), spread variables over more ps, or give steps "
        "more to compute (a larger batch)"
    )


def _lags(name: str, times: float, fastest: str) -> str:
    return (
        f"{name} takes {times:.1f} times as long for a step as {fastest} (more than {LAGS_MUCH:g} is much): dtfctl top "
        "says whether its host has less to give, or is busy; dtfctl drain moves it to another"
    )
