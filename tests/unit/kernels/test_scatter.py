"""Rows that are added up by number, and distinct numbers, whichever way they are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dtfctl import later
from dtfctl.runtime.kernels.array.scatter import add_up, distinct, scatter_into
from dtfctl.runtime.kernels.array.search import unique_in_order
from dtfctl.runtime.kernels.math.binary import power


@given(st.lists(st.integers(-50, 50), max_size=60), st.sampled_from(["i4", "i8", "u1", "i2"]), st.booleans())
def test_distinct_numbers_come_in_the_order_in_which_they_occur(numbers: list[int], dtype: str, apart: bool) -> None:
    # What is too far apart for a table is sorted.
    values = np.array(numbers, "i8").astype(dtype)
    if apart and dtype == "i8":
        values = values * 10**12
    first, inverse, counts = unique_in_order(values)
    order = list(dict.fromkeys(values.tolist()))
    assert values[first].tolist() == order
    assert [order[i] for i in inverse] == values.tolist()
    assert counts.tolist() == [values.tolist().count(v) for v in order]
    assert (distinct(values) is None) == bool(values.size and int(values.max()) - int(values.min()) > 10**9)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("inner", [(), (3,), (2, 4), (0,)])
@pytest.mark.parametrize("is_there", [True, False], ids=["with scipy", "while scipy is on its way"])
def test_rows_are_added_up_in_their_order(
    dtype: str, inner: tuple[int, ...], is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "arrived", lambda _: is_there)
    random = np.random.default_rng(1)
    indices = random.integers(0, 7, 40).astype("i4")
    rows: Any = (
        random.standard_normal((40, *inner)) * 10.0 ** random.integers(-3, 6, (40, *(1,) * len(inner)))
    ).astype(dtype)
    want = np.zeros((9, *inner), dtype)
    for i, row in zip(indices, rows):
        want[i] += row
    np.testing.assert_array_equal(add_up(indices, rows, 9), want)
    # Not contiguous, and of another byte order of dimensions.
    np.testing.assert_array_equal(add_up(indices, np.asfortranarray(rows), 9), want)
    table = np.full((1000, *inner), -0.0, dtype)
    scatter_into(table, indices * 100, rows, np.add)
    np.testing.assert_allclose(table[:900:100], want, rtol=1e-5)
    # Rows nobody adds to stay as they are, their signs too.
    assert np.signbit(np.delete(table, np.unique(indices) * 100, 0)).all()


def test_nothing_is_added_up_to_nothing() -> None:
    assert add_up(np.zeros(0, "i4"), np.zeros((0, 3), "f4"), 2).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, 1, 0, 2.5])
def test_powers(exponent: float) -> None:
    x = np.array([-np.inf, -2.5, -1e-30, -0.0, 0.0, 1e-30, 0.3, 7, 1e30, np.inf, np.nan], "f4")
    y = np.array(exponent, "f4")
    with np.errstate(all="ignore"):
        want = np.power(x.astype("f8"), exponent).astype("f4")
        np.testing.assert_allclose(power(x, y), want, rtol=3e-7)
        assert power(x[5], y) == pytest.approx(want[5])
        out = np.empty_like(x)
        assert power(x, y, out) is out
    np.testing.assert_allclose(out, want, rtol=3e-7)
