"""`tensorflow.python.util.compat` and `tensorflow.python.compat.compat`: what is not a name of `tf.compat`."""

from __future__ import annotations

import collections.abc as collections_abc
import contextlib
from collections.abc import Iterator
from typing import Any

from dtfctl.runtime.api import compat

__all__ = ["collections_abc", "forward_compatibility_horizon"]


@contextlib.contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Build graphs as ever, in a block: ops do not change with the date."""
    yield


def __getattr__(name: str) -> Any:
    return getattr(compat, name)
