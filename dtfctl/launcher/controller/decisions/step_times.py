"""What tasks' steps spend too much of their time on, by what the tasks count about themselves.

A share is of a window, as that of one step says little, and counts when it has been too large for a while.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field

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
INPUT_MUCH = 0.1
"""Bounds the part of a step that waits for input."""
COPIES_MUCH_S = 0.005
"""Bounds the copies between host and device in a step."""
BEHIND_MUCH = 4.0
"""Bounds how many updates of others come between the beginning of a step and its own."""
LAGS_MUCH = 1.5
"""Bounds how many times as long as the fastest worker's steps a worker's take."""
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


def _window(samples: deque[_Sample], newest: _Sample) -> _Sample | None:
    """Take a new sample; what was counted in the window, or None where too little ran."""
    if samples and newest.steps < samples[-1].steps:
        samples.clear()  # it was started again
    samples.append(newest)
    while len(samples) > 1 and newest.at - samples[1].at >= WINDOW_S:
        samples.popleft()
    window = newest.since(samples[0])
    return None if window.at < WINDOW_S or window.steps < LEAST_STEPS else window


def _values(name: str, as_worker: _Sample | None, as_any: _Sample | None) -> Iterator[tuple[str, float, float, str]]:
    """Yield each kind of finding with its value, threshold and advice; 0 where too little ran."""
    waits = input = copies = behind = 0.0
    if as_worker is not None:
        if as_worker.seconds:
            waits = min(as_worker.waited / as_worker.seconds, 1.0)
            input = min(as_worker.input / as_worker.seconds, 1.0)
        copies = as_worker.copied / as_worker.steps
    if as_any is not None and as_any.updates:
        behind = as_any.behind / as_any.updates
    yield "waits", waits, WAITS_MUCH, _waits(name, waits)
    yield "input", input, INPUT_MUCH, _input(name, input)
    yield "copies", copies, COPIES_MUCH_S, _copies(name, copies)
    yield "conflicts", behind, BEHIND_MUCH, _conflicts(name, behind)


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


def _waits(name: str, share: float) -> str:
    return (
        f"{name} waits {share:.0%} of its steps for other tasks (more than {WAITS_MUCH:.0%} is much): "
        "dtfctl profile says for which; send less (runtime.compression), spread variables over more ps, or give steps "
        "more to compute (a larger batch)"
    )


def _input(name: str, share: float) -> str:
    return (
        f"{name} waits {share:.0%} of its steps for input (more than {INPUT_MUCH:.0%} is much): prefetch() at the end "
        "of the data set, num_parallel_calls in its map(), cache() where it fits into memory"
    )


def _copies(name: str, seconds: float) -> str:
    return (
        f"{name} copies {seconds * 1e3:.1f} ms in a step between host and device (more than {COPIES_MUCH_S * 1e3:g} ms "
        "is much): keep variables and what follows on one device, feed less, fetch only what is looked at"
    )


def _conflicts(name: str, behind: float) -> str:
    return (
        f"{name} gets updates that are {behind:.1f} others behind (more than {BEHIND_MUCH:g} is much), so gradients "
        "are of old values: fewer workers, a smaller learning rate, BoundedStalenessHook, or SyncReplicasOptimizer"
    )


def _lags(name: str, times: float, fastest: str) -> str:
    return (
        f"{name} takes {times:.1f} times as long for a step as {fastest} (more than {LAGS_MUCH:g} is much): dtfctl top "
        "says whether its host has less to give, or is busy; dtfctl drain moves it to another"
    )
