"""Kernels of the state family against stock TensorFlow's answers."""

import pytest

from tests.unit.kernels.graph_cases import check, load

CASES = load("state")


@pytest.mark.parametrize("name", sorted(CASES))
def test_graph_agrees_with_tensorflow(name: str) -> None:
    check(CASES[name])
