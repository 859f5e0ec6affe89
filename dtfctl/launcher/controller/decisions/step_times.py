"""What tasks' steps spend too much of their time on, by what the tasks count about themselves.

A share is of a window, as that of one step says little, and counts when it has been too large for a while.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from dtfctl import thresholds
from dtfctl.figures import TaskFigures
from dtfctl.launcher.controller.decisions.link_faults import LinkNews
from dtfctl.thresholds import Threshold

LOOK_S = 2.0
WINDOW_S = 20.0
LEAST_STEPS = 20
"""Where there were fewer, a window is longer, up to `LONGEST_S`, and what has `FEWEST_STEPS` says something."""
LONGEST_S = 300.0
FEWEST_STEPS = 5
IDLE_TIMES = 3
"""A task has stopped that has ended no step for so many times as long as it took for each before."""
HOLD_S = 60.0
"""How long it lasts before it is told."""
WELL = 0.8
"""What was told is over below this part of a threshold."""


@dataclass(frozen=True)
class _Sample:
    """What a task has counted until `at`, or in a window."""

    at: float
    steps: int
    seconds: float
    waited: float
    input: float
    copied: float
    updates: int
    behind: int

    @classmethod
    def of(cls, counted: TaskFigures, now: float) -> _Sample:
        return cls(
            now,
            sum(counted.step_counts),
            counted.steps_s,
            counted.waited_s,
            counted.input_s,
            counted.copied_s,
            counted.updates,
            counted.behind,
        )

    def since(self, first: _Sample) -> _Sample:
        return _Sample(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(first), strict=True)))


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
        windows = {}
        for name, counted in figures.items():
            window = _window(self._tasks.setdefault(name, _Task()).samples, _Sample.of(counted, now))
            if window is not None:
                windows[name] = window
        workers = {name: window for name, window in windows.items() if not name.startswith("ps/")}
        lasting = {name: window.seconds / window.steps for name, window in workers.items()}
        fastest = _fastest(groups, lasting)
        news = []
        for name, task in self._tasks.items():
            for kind, value, threshold, text in _values(name, workers.get(name), windows.get(name)):
                news += _judge(task, name, kind, value, threshold, text, now)
            other = fastest.get(name, name)
            lags = lasting[name] / lasting[other] if lasting.get(other) else 0.0
            news += _judge(task, name, "lags", lags, thresholds.STRAGGLER, _lags(name, lags, other), now)
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


def _window(samples: deque[_Sample], newest: _Sample) -> _Sample | None:
    """Take a new sample; what was counted in the window, or None where too little ran, or runs no more."""
    if samples and newest.steps < samples[-1].steps:
        samples.clear()  # it was started again
    samples.append(newest)
    while len(samples) > 1 and _is_enough(newest.since(samples[1])):
        samples.popleft()
    window = newest.since(samples[0])
    if window.at < WINDOW_S or window.steps < FEWEST_STEPS:
        return None
    ended = next(sample.at for sample in reversed(samples) if sample.steps < newest.steps)
    if newest.at - ended >= max(WINDOW_S, IDLE_TIMES * window.at / window.steps):
        samples.clear()
        return None
    return window


def _is_enough(window: _Sample) -> bool:
    return window.at >= LONGEST_S or (window.at >= WINDOW_S and window.steps >= LEAST_STEPS)


def _values(
    name: str, as_worker: _Sample | None, as_any: _Sample | None
) -> Iterator[tuple[str, float, Threshold, str]]:
    """Yield each kind of finding with its value, threshold and advice; 0 where too little ran."""
    waits = input = copies = behind = 0.0
    if as_worker is not None:
        if as_worker.seconds:
            waits = min(as_worker.waited / as_worker.seconds, 1.0)
            input = min(as_worker.input / as_worker.seconds, 1.0)
        copies = as_worker.copied / as_worker.steps * 1e3
    if as_any is not None and as_any.updates:
        behind = as_any.behind / as_any.updates
    yield "waits", waits, thresholds.SYNC, _waits(name, waits)
    yield "input", input, thresholds.INPUT, _input(name, input)
    yield "copies", copies, thresholds.COPIES, _copies(name, copies)
    yield "conflicts", behind, thresholds.CONFLICTS, _conflicts(name, behind)


def _judge(
    task: _Task, name: str, kind: str, value: float, threshold: Threshold, text: str, now: float
) -> list[LinkNews]:
    found = task.findings.get(kind)
    if found is None:
        if value >= threshold.much:
            task.findings[kind] = _Finding(now, value, text)
        return []
    if value < threshold.much * (WELL if found.is_told else 1.0):
        del task.findings[kind]
        return [LinkNews(f"steps.{kind}-no-more", name, "")] if found.is_told else []
    found.value, found.text = value, text
    if found.is_told or now - found.since < HOLD_S:
        return []
    found.is_told = True
    return [LinkNews(f"steps.{kind}", name, text)]


def _waits(name: str, share: float) -> str:
    return (
        f"{name} waits {share:.0%} of its steps for other tasks (more than {thresholds.SYNC.words} is much): "
        f"dtfctl profile says for which, and whether compression helps; {thresholds.SYNC.advice}"
    )


def _input(name: str, share: float) -> str:
    return (
        f"{name} waits {share:.0%} of its steps for input (more than {thresholds.INPUT.words} is much): "
        f"{thresholds.INPUT.advice}"
    )


def _copies(name: str, milliseconds: float) -> str:
    return (
        f"{name} copies {milliseconds:.1f} ms in a step between host and device (more than {thresholds.COPIES.words} "
        f"is much): {thresholds.COPIES.advice}"
    )


def _conflicts(name: str, behind: float) -> str:
    return (
        f"{name} gets updates that are {behind:.1f} others behind (more than {thresholds.CONFLICTS.words} is much), so "
        f"gradients are of old values: {thresholds.CONFLICTS.advice}"
    )


def _lags(name: str, times: float, fastest: str) -> str:
    return (
        f"{name} takes {times:.1f} times as long for a step as {fastest} (more than {thresholds.STRAGGLER.words} is "
        f"much): {thresholds.STRAGGLER.advice}; dtfctl drain moves it to another"
    )
