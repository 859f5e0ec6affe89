"""Every pair of hosts meets once, and nobody meets two at a time."""

from __future__ import annotations

from itertools import combinations

import pytest

from dtfctl.launcher.operator.pairs import rounds


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8])
def test_everybody_meets_everybody_once(count: int) -> None:
    names = [f"h{i}" for i in range(count)]
    met = list(rounds(names))
    assert sorted(tuple(sorted(pair)) for pairs in met for pair in pairs) == list(combinations(names, 2))
    assert len(met) == max(0, count + count % 2 - 1)
    for pairs in met:
        told = [name for pair in pairs for name in pair]
        assert len(told) == len(set(told))
