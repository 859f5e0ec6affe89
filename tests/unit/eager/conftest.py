from __future__ import annotations

from collections.abc import Iterator

import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Each test begins as an eager program does, and leaves graphs behind as it found them."""
    tf.reset_default_graph()
    tf.enable_eager_execution()
    yield
    tf.disable_eager_execution()
