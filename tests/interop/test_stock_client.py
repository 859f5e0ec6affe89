"""The unmodified client of TensorFlow 2.21 against a cluster of ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.interop


def test_calls_and_errors_of_a_session(stock_client: Callable[..., str]) -> None:
    assert stock_client("stock_session.py").endswith("done\n")


@pytest.mark.slow
def test_golden_cases(stock_client: Callable[..., str]) -> None:
    stock_client("stock_golden.py")
