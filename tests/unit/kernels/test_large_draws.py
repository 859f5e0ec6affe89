"""Random draws of many numbers: they are the stream's, and take little more memory than what is drawn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.kernels.random import philox

DRAWS = [philox.uniform, philox.normal, philox.truncated_normal]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("draw", DRAWS)
def test_a_large_draw_begins_with_what_a_small_one_gives(
    monkeypatch: pytest.MonkeyPatch, draw: Callable[..., Any], dtype: type
) -> None:
    """However many are drawn together: with parts of 16 blocks, and of all of them."""
    gen, size = philox.Philox.from_seeds(3, 7), 1001
    whole = draw(gen, size, np.dtype(dtype))
    monkeypatch.setattr(philox, "_CHUNK", 16)
    np.testing.assert_array_equal(draw(gen, size, np.dtype(dtype)), whole)
    np.testing.assert_array_equal(draw(gen, 10, np.dtype(dtype)), whole[:10])


@pytest.mark.parametrize("draw", DRAWS)
def test_a_large_draw_takes_little_more_memory_than_its_result(draw: Callable[..., Any]) -> None:
    """An embedding of millions of rows is drawn on a ps that has room for it: it took five times that."""
    tracemalloc.start()
    try:
        drawn = draw(philox.Philox.from_seeds(3, 7), 2_000_000, np.dtype(np.float32))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A truncated normal draws each block of its parts twice at least.
    assert most < 2.5 * drawn.nbytes
