"""What is told of tasks whose steps wait, or take longer than others'."""

from __future__ import annotations

from dtfctl.figures import TaskFigures
from dtfctl.launcher.controller.decisions.step_times import HOLD_S, LOOK_S, WINDOW_S, StepTimes

RATE = 50.0
"""Steps a second."""


class Run:
    """Tasks that run steps, looked at every `LOOK_S`."""

    def __init__(self) -> None:
        self.times = StepTimes()
        self.now = 1000.0
        self.counted: dict[str, tuple[float, float, float]] = {}
        self.news: list[tuple[str, str]] = []
        self.groups = [["ps/0", "worker/0", "worker/1", "worker/2"]]

    def go(self, seconds: float, **tasks: tuple[float, float]) -> list[tuple[str, str]]:
        """Let tasks run steps for so long that take, and wait for, so much of the time; give what is new."""
        until, before = self.now + seconds, len(self.news)
        while self.now < until:
            self.now += LOOK_S
            figures = {}
            for key, (busy, waits) in tasks.items():
                name = key.replace("_", "/")
                steps, total, waited = self.counted.get(name, (0.0, 0.0, 0.0))
                now = (steps + RATE * LOOK_S * bool(busy), total + LOOK_S * busy, waited + LOOK_S * busy * waits)
                self.counted[name] = now
                figures[name] = TaskFigures(step_counts=(int(now[0]),), steps_s=now[1], waited_s=now[2])
            assert self.times.is_due(self.now)
            self.news += [(item.kind, item.subject) for item in self.times.look(figures, self.groups, self.now)]
        return self.news[before:]


LONG = WINDOW_S + HOLD_S + 4 * LOOK_S


def test_a_worker_that_waits_much_for_long_is_told_once_and_until_it_waits_no_more() -> None:
    run = Run()
    assert run.go(WINDOW_S + HOLD_S / 2, worker_0=(0.9, 0.5)) == [] and run.times.advice() == ()
    assert run.go(LONG, worker_0=(0.9, 0.5)) == [("steps.waits", "worker/0")]
    (advice,) = run.times.advice()
    assert advice.startswith("worker/0 waits 50% of its steps") and "dtfctl profile" in advice
    # A little better is not well.
    assert run.go(LONG, worker_0=(0.9, 0.18)) == [] and run.times.advice()
    assert run.go(LONG, worker_0=(0.9, 0.05)) == [("steps.waits-no-more", "worker/0")]
    assert run.times.advice() == ()


def test_a_short_wait_a_ps_and_what_runs_no_steps_are_nothing_to_tell() -> None:
    run = Run()
    run.go(LONG, ps_0=(0.9, 0.9), worker_0=(0.9, 0.1), worker_1=(0.0, 0.0))
    run.go(HOLD_S / 2, ps_0=(0.9, 0.9), worker_0=(0.9, 0.9))
    run.go(LONG, ps_0=(0.9, 0.9), worker_0=(0.9, 0.1))
    assert run.news == []


def test_a_worker_slower_than_the_fastest_lags() -> None:
    run = Run()
    assert run.go(LONG, worker_0=(0.3, 0.0), worker_1=(0.9, 0.0), worker_2=(0.35, 0.0)) == [("steps.lags", "worker/1")]
    assert run.times.advice()[0].startswith("worker/1 takes 3.0 times as long for a step as worker/0")
    # The job has ended.
    assert run.go(LONG, worker_0=(0.0, 0.0), worker_1=(0.0, 0.0), worker_2=(0.0, 0.0)) == [
        ("steps.lags-no-more", "worker/1")
    ]


def test_steps_of_different_jobs_are_not_compared() -> None:
    run = Run()
    run.groups = [["worker/0"], ["worker/1", "worker/2"], ["worker/2"]]
    assert run.go(LONG, worker_0=(0.1, 0.0), worker_1=(0.9, 0.0), worker_2=(0.2, 0.0)) == []


def test_a_task_that_was_started_again_is_judged_anew() -> None:
    run = Run()
    run.go(LONG, worker_0=(0.9, 0.5))
    run.counted.clear()
    assert run.go(WINDOW_S / 2, worker_0=(0.9, 0.5)) == [("steps.waits-no-more", "worker/0")]
    assert run.go(LONG, worker_0=(0.9, 0.5)) == [("steps.waits", "worker/0")]


def test_input_copies_and_conflicts_are_told_with_value_and_threshold() -> None:
    times, now, news, texts = StepTimes(), 1000.0, [], []
    for turn in range(int(LONG / LOOK_S)):
        now += LOOK_S
        steps = int(RATE * LOOK_S) * turn
        worker = TaskFigures((steps,), steps_s=1.0 * turn, input_s=0.3 * turn, copied_s=0.006 * steps)
        # A ps may wait for input as long as it likes, but not be overtaken.
        ps = TaskFigures((steps,), steps_s=1.0 * turn, input_s=0.9 * turn, updates=10 * turn, behind=55 * turn)
        news += [(item.kind, item.subject) for item in times.look({"worker/0": worker, "ps/0": ps}, [], now)]
        texts = [text.partition(":")[0] for text in times.advice()]
    assert sorted(news) == [("steps.conflicts", "ps/0"), ("steps.copies", "worker/0"), ("steps.input", "worker/0")]
    assert sorted(texts) == [
        "ps/0 gets updates that are 5.5 others behind (more than 4 is much), so gradients are of old values",
        "worker/0 copies 6.0 ms in a step between host and device (more than 5 ms is much)",
        "worker/0 waits 30% of its steps for input (more than 10% is much)",
    ]


def look_at_slow_steps(times: StepTimes, step_s: float, seconds: float, now: float, ended: float) -> list[str]:
    """Let a worker run steps of so many seconds, half of which it waits, until `ended`; give what is new."""
    news: list[str] = []
    until = now + seconds
    while now < until:
        now += LOOK_S
        steps = int(min(now, ended) / step_s)
        figures = TaskFigures((steps,), steps_s=steps * step_s, waited_s=steps * step_s / 2)
        news += [item.kind for item in times.look({"worker/0": figures}, [], now)]
    return news


def test_few_long_steps_are_judged_as_many_short_ones_are() -> None:
    for step_s in (0.1, 1.5, 9.0):
        times = StepTimes()
        assert look_at_slow_steps(times, step_s, 4 * LONG, 0.0, 1e9) == ["steps.waits"]
        # The job ends: nothing waits any more.
        news = look_at_slow_steps(times, step_s, 4 * LONG, 4 * LONG, 4 * LONG)
        assert news == ["steps.waits-no-more"]


def test_steps_that_become_slow_do_not_end_what_was_told() -> None:
    times = StepTimes()
    counted, news, now = [0.0, 0.0], [], 0.0
    for pace in [50.0] * int(LONG) + [0.8] * int(LONG) + [50.0] * int(LONG):
        now += LOOK_S
        # A step ends when it does.
        counted = [counted[0] + pace * LOOK_S, counted[1] + LOOK_S]
        figures = TaskFigures((int(counted[0]),), steps_s=counted[1], waited_s=counted[1] / 2)
        news += [item.kind for item in times.look({"worker/0": figures}, [], now)]
    assert news == ["steps.waits"]
