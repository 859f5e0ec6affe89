"""`tensorflow.python.ops.stateless_random_ops`: what is `stateless_uniform` outside is `stateless_random_uniform`."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.api import random
from dtfctl.runtime.ops.stateless_random import index_shuffle, stateless_random_crop, stateless_shuffle

__all__ = ["index_shuffle", "stateless_random_crop", "stateless_shuffle"]


def __getattr__(name: str) -> Any:
    public = name.replace("stateless_random_", "stateless_")
    if not hasattr(random, public):
        raise AttributeError(f"tf.random has no {public!r}")
    return getattr(random, public)
