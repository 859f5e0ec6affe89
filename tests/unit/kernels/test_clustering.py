"""Ops of k-means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

# All but the last are close to (101, 1).
POINTS = np.array(
    [[100, 0], [101, 2], [102, 0], [100, 1], [100, 2], [101, 0], [101, 0], [101, 1], [102, 0], [-1, -1]], np.float32
)


@pytest.mark.parametrize("retries", [-1, 0, 3])
def test_first_centers_are_far_apart(retries: int) -> None:
    for seed in range(20):
        found = run_op("KmeansPlusPlusInitialization", POINTS, np.int64(3), np.int64(seed), np.int64(retries))
        assert found.shape == (3, 2) and found.dtype == np.float32
        assert [-1.0, -1.0] in found.tolist()


def test_all_points_are_drawn_once_where_as_many_are_asked_for() -> None:
    points = np.arange(5, dtype=np.float32)[:, None]
    found = run_op("KmeansPlusPlusInitialization", points, np.int64(5), np.int64(1), np.int64(0))
    assert sorted(found[:, 0].tolist()) == [0, 1, 2, 3, 4]


def test_a_chain_ends_where_the_distance_is_large() -> None:
    distances = np.zeros(1000, np.float32)
    distances[[4, 6]] = 1e4, 1e8
    assert all(run_op("KMC2ChainInitialization", distances, np.int64(seed)) == 6 for seed in range(20))
    assert run_op("KMC2ChainInitialization", np.zeros(10, np.float32), np.int64(3)) == 0


def test_nearest_centers_in_order_of_distance() -> None:
    points = np.array([[100, 0], [101, 2], [99, 2], [1, 1]], np.float32)
    centers = np.array([[100, 0], [99, 1], [50, 50], [0, 0], [1, 1]], np.float32)
    indices, distances = run_op("NearestNeighbors", points, centers, np.int64(2))
    assert indices.tolist() == [[0, 1], [0, 1], [1, 0], [4, 3]] and indices.dtype == np.int64
    np.testing.assert_allclose(distances, [[0, 2], [5, 5], [1, 5], [0, 2]])
    assert run_op("NearestNeighbors", points, centers, np.int64(9))[0].shape == (4, 5)


@pytest.mark.parametrize(
    ("op", "inputs", "text"),
    [
        ("KmeansPlusPlusInitialization", (POINTS, np.int64(11), np.int64(0), np.int64(0)), "11 vs 10"),
        ("KmeansPlusPlusInitialization", (POINTS[:0], np.int64(1), np.int64(0), np.int64(0)), r"points.rows\(\) > 0"),
        ("KMC2ChainInitialization", (np.zeros(0, np.float32), np.int64(0)), r"size\(\) > 0"),
        ("NearestNeighbors", (POINTS, np.ones((2, 3), np.float32), np.int64(1)), "2 vs 3"),
    ],
)
def test_what_cannot_be_clustered_says_why(op: str, inputs: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        run_op(op, *inputs)
