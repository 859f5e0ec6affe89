"""Ops of k-means: first centers drawn from points, and the centers nearest to each point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.pieces import each
from dtfctl.runtime.kernels.random.philox import Philox, WordStream
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

# Distances are worked out for so many pairs at a time.
_PAIRS = 1 << 22


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise InvalidArgumentError(text)


def _half_distances(points: Any, norms: Any, index: int) -> Any:
    """Half the squared distance of each point from one of them; `norms` has half the points' squared lengths."""
    return norms - points @ points[index] + norms[index]


class _Sampling:
    """Points drawn one after the other, each as likely as it is far from those drawn before."""

    def __init__(self, points: Any, seed: int) -> None:
        self.points, self.count = points, len(points)
        self.norms = np.float32(0.5) * np.einsum("ij,ij->i", points, points)
        self.words = WordStream(Philox.from_seeds(seed, 0))
        self.nearest = np.full(self.count, np.inf, np.float32)
        self.sums = np.zeros(self.count, np.float32)
        self.taken: set[int] = set()

    def _draw(self) -> int:
        if not self.taken:
            return self.words.below(self.count)
        while True:
            below = np.float32(self.words.next_float32()) * self.sums[-1]
            index = min(int(np.searchsorted(self.sums, below, "right")), self.count)
            if index not in self.taken:
                return index

    def take(self, retries: int) -> int:
        """Choose the best of 1 + `retries` draws: after which points are nearest to what is taken, all together."""
        best, potential, nearest = 0, np.float32(np.inf), self.nearest
        for _ in range(1 + retries):
            index = self._draw()
            distances = _half_distances(self.points, self.norms, min(index, self.count - 1))
            after = np.minimum(self.nearest, distances)
            if retries == 0 or after.sum() < potential:
                best, potential, nearest = index, after.sum(), after
        self.nearest = nearest
        best = min(best, self.count - 1)
        self.taken.add(best)
        self.sums = np.cumsum(nearest, dtype=np.float32)
        return best


@register_kernel("KmeansPlusPlusInitialization", pieces=True)
def kmeans_plus_plus_initialization(k: KernelBuild) -> Kernel:
    def kernel(points: Any, number: Any, seed: Any, retries: Any) -> Any:
        _require(points.ndim == 2, "Input points should be a matrix.")
        for value, name in ((number, "num_to_sample"), (seed, "seed"), (retries, "num_retries_per_sample")):
            _require(value.ndim == 0, f"Input {name} should be a scalar.")
        count, again = int(number), int(retries)
        _require(len(points) > 0, "Expected points.rows() > 0.")
        _require(count > 0, "Expected num_to_sample > 0.")
        _require(count <= len(points), f"Expected num_to_sample <= points.rows(). {count} vs {len(points)}.")
        if again < 0:
            again = 2 + int(math.log(count))
        sampling = _Sampling(points, int(seed))
        return points[[sampling.take(again) for _ in each(range(count))]]

    return kernel


@register_kernel("KMC2ChainInitialization", pieces=True)
def kmc2_chain_initialization(k: KernelBuild) -> Kernel:
    def kernel(distances: Any, seed: Any) -> Any:
        _require(distances.ndim == 1, "Input distances should be a vector.")
        _require(seed.ndim == 0, "Input seed should be a scalar.")
        _require(distances.size > 0, "Expected distances_tensor.size() > 0.")
        words = WordStream(Philox.from_seeds(int(seed), 0))
        state = 0
        for i in each(range(1, distances.size)):
            if distances[i] > np.float32(words.next_float32()) * distances[state]:
                state = i
        return np.array(state, np.int64)

    return kernel


@register_kernel("NearestNeighbors", pieces=True)
def nearest_neighbors(k: KernelBuild) -> Kernel:
    def kernel(points: Any, centers: Any, number: Any) -> Any:
        _require(points.ndim == 2, "Input points should be a matrix.")
        _require(centers.ndim == 2, "Input centers should be a matrix.")
        _require(number.ndim == 0, "Input k should be a scalar.")
        _require(len(points) > 0, "Expected points.rows() > 0.")
        _require(
            points.shape[1] == centers.shape[1],
            f"Expected point_dimensions == center_dimensions: {points.shape[1]} vs {centers.shape[1]}.",
        )
        nearest = min(len(centers), max(int(number), 0))
        admit((len(points), nearest), 12)
        indices = np.empty((len(points), nearest), np.int64)
        distances = np.empty((len(points), nearest), np.float32)
        lengths = np.float32(0.5) * np.einsum("ij,ij->i", centers, centers)
        rows = max(1, _PAIRS // max(1, len(centers)))
        for begin in each(range(0, len(points) if nearest else 0, rows)):
            some = points[begin : begin + rows]
            partial = lengths - some @ centers.T
            order = np.argsort(partial, axis=1, kind="stable")[:, :nearest]
            own = np.float32(0.5) * np.einsum("ij,ij->i", some, some)
            indices[begin : begin + rows] = order
            distances[begin : begin + rows] = 2 * (own[:, None] + np.take_along_axis(partial, order, 1))
        return indices, distances

    return kernel
