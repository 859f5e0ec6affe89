"""Orders of units, and where a model is cut: what follows from numbers alone."""

from __future__ import annotations

import itertools
import random

import pytest

from dtfctl.runtime.pipelines.cuts import balanced, crossing_bytes, stage_at
from dtfctl.runtime.pipelines.schedules import Schedule, ideal_bubble, most_held, simulated, units_of


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 5), (2, 1), (2, 4), (4, 2), (4, 8), (5, 13)])
def test_each_stage_does_everything_once_and_the_bubble_is_the_ideal_one(
    schedule: Schedule, stages: int, microbatches: int
) -> None:
    for stage in range(stages):
        units = units_of(schedule, stage, stages, microbatches)
        assert sorted(units) == sorted((f, k) for f in (True, False) for k in range(microbatches))
        assert all(units.index((True, k)) < units.index((False, k)) for k in range(microbatches))  # type: ignore[arg-type]
    _, bubble = simulated(schedule, microbatches, [1.0] * stages, [2.0] * stages)
    assert bubble == pytest.approx(ideal_bubble(stages, microbatches))


def test_one_forward_one_backward_holds_as_many_activations_as_stages_follow() -> None:
    assert [most_held(Schedule.ONE_F_ONE_B, s, 4, 16) for s in range(4)] == [4, 3, 2, 1]
    assert [most_held(Schedule.GPIPE, s, 4, 16) for s in range(4)] == [16] * 4
    assert [most_held(Schedule.ONE_F_ONE_B, s, 4, 2) for s in range(4)] == [2, 2, 2, 1]


def test_a_slow_stage_sets_the_pace() -> None:
    total, bubble = simulated(Schedule.ONE_F_ONE_B, 8, [1.0, 3.0], [2.0, 6.0])
    assert total == pytest.approx(8 * 9.0 + 3.0)
    assert bubble == pytest.approx(1 - 8 * 12 / (2 * total))


def test_the_dearest_stage_is_as_cheap_as_can_be_and_least_is_sent_between() -> None:
    draw = random.Random(1)
    for _ in range(200):
        count = draw.randint(1, 9)
        costs = [float(draw.choice((0, 1, 2, 5, 9))) for _ in range(count)]
        crossing = [draw.randint(0, 9) for _ in range(count)]
        stages = draw.randint(1, count)

        def dearest(begins: tuple[int, ...], costs: list[float] = costs) -> float:
            return max(sum(costs[a:b]) for a, b in itertools.pairwise((*begins, len(costs))))

        ways = [(0, *w) for w in itertools.combinations(range(1, count), stages - 1)]
        least = min(dearest(w) for w in ways)
        wanted = min(sum(crossing[b] for b in w[1:]) for w in ways if dearest(w) <= least + 1e-9)
        begins = balanced(costs, crossing, stages, slack=1e-4)
        assert tuple(begins) in ways
        assert dearest(tuple(begins)) == least
        assert sum(crossing[b] for b in begins[1:]) == wanted
        assert [stage_at(begins, b) for b in begins] == list(range(stages))


def test_what_is_sent_at_a_cut_is_what_later_ops_take() -> None:
    # 0 gives 10 bytes to 1 and 3, 1 gives 5 to 2, 2 gives nothing, 3 gives 1 to nobody.
    assert crossing_bytes([10, 5, 7, 1], [3, 2, 2, 3]) == [0, 10, 15, 10]


def test_more_stages_than_ops_are_refused() -> None:
    with pytest.raises(ValueError, match="2 ops cannot be cut into 3 stages"):
        balanced([1.0, 1.0], [0, 0], 3)
