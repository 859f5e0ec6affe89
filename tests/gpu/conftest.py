"""Tests that need a GPU: `python -m pytest tests/gpu` on a machine with cupy and an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_HERE = f"{Path(__file__).parent}/"


def _reason() -> str | None:
    """Why nothing here can run, or None."""
    try:
        import cupy
    except ImportError as e:
        return f"cupy is not installed (pip install dtfctl[gpu]): {e}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as e:
        return f"CUDA does not start: {e}"
    return None if count else "CUDA sees no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if str(item.path).startswith(_HERE)]
    if not mine:
        return
    reason = _reason()
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def cupy() -> Iterator[Any]:
    import cupy

    yield cupy
    cupy.cuda.Device().synchronize()
