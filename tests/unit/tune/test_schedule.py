"""Which leg is next, decided on simulated trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dtfctl.tune.schedule import Leg, Past, brackets, next_leg
from dtfctl.tune.space import Budget, Choices, Range, Settings, Study

PARAMETERS = {"x": Range(0.0, 1.0), "n": Range(2, 20, step=3, whole=True), "c": Choices(("a", "b", "d"))}


def study(scheduler: str, trials: int, budget: Budget | None, maximize: bool = True) -> Study:
    return Study(PARAMETERS, "score", maximize, "random", trials, scheduler, budget)


def simulate(of: Study, score: Callable[[Leg], float | None], slots: int = 1) -> list[Past]:
    """Run legs until there are none: `slots` side by side, of which the oldest ends first."""
    past: list[Past] = []

    def propose() -> Settings | None:
        trial = len({one.leg.trial for one in past})
        return {"x": trial / of.trials, "n": 5, "c": "b"}

    while True:
        running = [number for number, one in enumerate(past) if not one.ended]
        leg = next_leg(of, past, propose) if len(running) < slots else None
        if leg is not None:
            past.append(Past(leg, None, False))
        elif running:
            ended = past[running[0]].leg
            past[running[0]] = Past(ended, score(ended), True)
        else:
            return past


def at(past: Sequence[Past], budget: int) -> list[int]:
    return sorted(one.leg.trial for one in past if one.leg.budget == budget)


def by_x(leg: Leg) -> float:
    return float(leg.settings["x"])


def test_without_a_scheduler_each_trial_runs_once() -> None:
    past = simulate(study("none", 5, None), by_x, slots=2)
    assert [(one.leg.trial, one.leg.budget) for one in past] == [(trial, None) for trial in range(5)]
    assert {one.leg.budget for one in simulate(study("none", 3, Budget("steps", 1, 9)), by_x)} == {9}


@pytest.mark.parametrize("slots", [1, 3, 9])
@pytest.mark.parametrize("maximize", [True, False])
def test_asha_lets_the_best_third_of_a_rung_go_on_from_their_checkpoints(slots: int, maximize: bool) -> None:
    past = simulate(study("asha", 27, Budget("steps", 1, 9), maximize), by_x, slots)
    best = 26 if maximize else 0
    assert len(at(past, 1)) == 27 and best in at(past, 9)
    assert len(at(past, 3)) >= 9 and len(at(past, 9)) >= 3
    for one in past:
        if one.leg.number:
            assert one.leg.after == (one.leg.trial, one.leg.number - 1)


def test_asha_lets_none_go_on_that_failed() -> None:
    past = simulate(study("asha", 9, Budget("steps", 1, 9)), lambda leg: None if leg.trial > 4 else by_x(leg))
    assert at(past, 3) and max(at(past, 3)) == 4


def test_brackets_begin_at_each_rung_and_have_all_trials() -> None:
    assert brackets(Budget("steps", 1, 9), 17) == [(0, 9), (1, 5), (2, 3)]
    assert brackets(Budget("steps", 1, 9), 20) == [(0, 9), (1, 5), (2, 3), (0, 3)]
    assert sum(size for _, size in brackets(Budget("steps", 1, 81), 143)) == 143


@pytest.mark.parametrize("slots", [1, 4])
def test_hyperband_awaits_a_rung_and_takes_its_best(slots: int) -> None:
    past = simulate(study("hyperband", 17, Budget("steps", 1, 9)), by_x, slots)
    # The first bracket is of trials 0 to 8, the second of 9 to 13 from the second rung, the third of 14 to 16.
    assert at(past, 1) == list(range(9))
    assert at(past, 3) == [6, 7, 8, 9, 10, 11, 12, 13]
    assert at(past, 9) == [8, 13, 14, 15, 16]


def test_a_population_learns_from_its_best() -> None:
    of = study("pbt", 8, Budget("steps", 10, 50))
    past = simulate(of, by_x, slots=3)
    assert len(past) == 8 * 5
    taught = [one.leg for one in past if one.leg.after is not None and one.leg.after[0] != one.leg.trial]
    assert taught
    first = {one.leg.key: one for one in past}
    for leg in taught:
        assert leg.after is not None
        teacher = first[leg.after]
        assert teacher.leg.budget == leg.budget - 10 if leg.budget else False
        assert teacher.score is not None and teacher.score >= (first[leg.trial, leg.number - 1].score or 0)
        assert 0 <= float(leg.settings["x"]) <= 1 and leg.settings["c"] in "abd"
        assert int(leg.settings["n"]) in range(2, 21, 3)
    end = [by_x(one.leg) for one in past if one.leg.budget == 50]
    assert sum(end) / 8 > sum(trial / 8 for trial in range(8)) / 8


def test_a_population_decides_alike_again() -> None:
    of = study("pbt", 6, Budget("steps", 1, 4))
    assert simulate(of, by_x, 2) == simulate(of, by_x, 2)
