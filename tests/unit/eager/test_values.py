"""Values, derivatives and trained variables equal stock TensorFlow's eager ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.eager import cases

EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("expected.json").read_text())


def check(key: str, values: list[Any]) -> None:
    expected = EXPECTED[key]
    assert len(values) == len(expected)
    for value, wanted in zip(values, expected):
        assert (value is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", cases.UNARY)
def test_functions_of_one_argument_and_two_derivatives(name: str) -> None:
    check(f"unary {name}", cases.unary(tf, name))


@pytest.mark.parametrize("name", cases.BINARY)
def test_functions_of_two_arguments_that_broadcast(name: str) -> None:
    check(f"binary {name}", cases.binary(tf, name))


@pytest.mark.parametrize("name", [k.removeprefix("derived ") for k in EXPECTED if k.startswith("derived ")])
def test_derivatives_eagerly_and_through_a_function(name: str) -> None:
    function = cases.functions(tf)[name]
    check(f"derived {name}", cases.derived(tf, function))
    check(f"derived {name}", cases.derived(tf, tf.function(function)))


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_optimizers(name: str) -> None:
    check(f"trained {name}", cases.trained(tf, name))
