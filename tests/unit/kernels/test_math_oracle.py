"""Kernels of the math family against stock TensorFlow's answers."""

import pytest

from tests.unit.kernels.oracle_cases import cases_by_op, check

CASES = cases_by_op("math")


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(CASES))
def test_op_agrees_with_tensorflow(op: str) -> None:
    for case in CASES[op]:
        check(case)
