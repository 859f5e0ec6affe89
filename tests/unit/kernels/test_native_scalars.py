"""Functions of single numbers in compiled regions, against double precision: units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import machine

if not machine.can_compile():
    pytest.skip("llvmlite is not installed", allow_module_level=True)

from dtfctl.runtime.kernels.native import code, scalars
from dtfctl.runtime.kernels.native.compile import image_of_text
from dtfctl.runtime.kernels.native.nests import Loops

F = np.float32
CASES: dict[str, tuple[Any, float, float, float]] = {
    "exp": (np.exp, -87.0, 88.0, 1.5),
    "expm1": (np.expm1, -20.0, 80.0, 3.0),
    "log": (np.log, 0.01, 1e4, 1.5),
    "log1p": (np.log1p, -0.99, 3.0, 2.0),
    "tanh": (np.tanh, -10.0, 10.0, 2.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80.0, 30.0, 3.5),
    "softplus": (lambda x: np.logaddexp(0, x), -20.0, 20.0, 3.0),
}


def computed(name: str, given: Any) -> Any:
    """Compute a function of numbers in a region."""
    spec = Spec(given.shape, given.dtype)
    loops = Loops()
    x = loops.operand(spec)
    made = loops.output(loops.map(getattr(scalars, name), [x], "f4", spec.shape), spec)
    loops.group()
    written = code.generate(loops, [x.buffer], [made])
    call = machine.load(image_of_text(written.text), machine.numbers_of([], written.described))["region"]
    out = np.empty_like(given)
    assert call(given, out, np.empty(max(written.scratch, 1), np.uint8))
    return out


@pytest.mark.parametrize("name", CASES)
def test_last_places(name: str) -> None:
    exact, low, high, most = CASES[name]
    given = np.linspace(low, high, 20_000, dtype=F)
    out = computed(name, given)
    want = exact(given.astype(np.float64))
    assert np.max(np.abs(out - want) / np.spacing(np.abs(want).astype(F))) <= most


@pytest.mark.parametrize(
    "name, given, want",
    [
        ("exp", [-87.0, -104.0, -105.0, -1e9, -np.inf], [np.exp(F(-87)), 0.0, 0.0, 0.0, 0.0]),
        ("exp", [np.nan, np.inf, 90.0, 0.0, -0.0], [np.nan, np.inf, np.inf, 1.0, 1.0]),
        (
            "expm1",
            [-15.0, -20.0, -105.0, -np.inf, np.nan, np.inf],
            [np.expm1(F(-15)), -1.0, -1.0, -1.0, np.nan, np.inf],
        ),
        ("sigmoid", [-200.0, -np.inf, np.inf, np.nan], [0.0, 0.0, 1.0, np.nan]),
        ("softplus", [-200.0, -np.inf, np.inf, np.nan], [0.0, 0.0, np.inf, np.nan]),
    ],
)
def test_numbers_at_the_ends(name: str, given: list[float], want: list[float]) -> None:
    np.testing.assert_array_equal(computed(name, np.array(given, F)), np.array(want, F))


def test_what_is_too_small_to_be_normal_is_zero_within_a_region_only() -> None:
    given = np.array([-90.0, -100.0, -80.0], F)
    out = computed("exp", given)
    np.testing.assert_array_equal(out[:2], [0.0, 0.0])
    assert out[2] > 0
    # Who called computes as before.
    assert np.array([1e-30], F) * np.array([1e-10], F) > 0
