"""A pass of oneDNN in parts of its images, which threads claim as they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.into.parallel import PARTS_EACH, bounds, shared_pool
from dtfctl.runtime.kernels.into.threads import by_one
from dtfctl.runtime.kernels.onednn.library import Library
from dtfctl.runtime.kernels.onednn.passes import Pass


class InParts:
    """Computes what a pass for all images does.

    A pass has memory of its own, so each thread that computes takes one of those that are idle.

    Args:
        images: how many there are.
        make: makes the pass for so many of them.
        cut: which of its arrays have a row for each image.
        sums: how many of the last are sums over all images.
    """

    def __init__(
        self, library: Library, images: int, make: Callable[[int], Pass], cut: tuple[bool, ...], sums: int
    ) -> None:
        self._make, self._cut, self._sums = make, cut, sums
        self._run = by_one(self._run_some, library.set_threads, library.threads())
        self._rows = list(bounds(images, shared_pool().size * PARTS_EACH))
        self._idle: dict[int, list[Pass]] = {rows.stop - rows.start: [] for rows in self._rows}

    def __call__(self, *arrays: Any) -> None:
        whole, totals = arrays[: len(arrays) - self._sums], arrays[len(arrays) - self._sums :]
        results = [np.empty((len(self._rows), *total.shape), total.dtype) for total in totals]
        parts = [
            partial(
                self._run,
                rows.stop - rows.start,
                [*(a[rows] if c else a for a, c in zip(whole, self._cut)), *(r[n] for r in results)],
            )
            for n, rows in enumerate(self._rows)
        ]
        shared_pool().run(parts)
        for result, total in zip(results, totals):
            np.add.reduce(result, 0, out=total)

    def _run_some(self, images: int, arrays: list[Any]) -> None:
        idle = self._idle[images]
        try:
            found = idle.pop()
        except IndexError:
            found = self._make(images)
        found.run(*arrays)
        idle.append(found)
