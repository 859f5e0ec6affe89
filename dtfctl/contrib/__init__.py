"""What is most used of TensorFlow 1's `tf.contrib`: `from dtfctl.contrib import layers, rnn, training, framework`."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "cluster_resolver",
    "crf",
    "data",
    "distributions",
    "eager",
    "feature_column",
    "framework",
    "layers",
    "learn",
    "legacy_seq2seq",
    "linalg",
    "lookup",
    "losses",
    "metrics",
    "opt",
    "predictor",
    "rnn",
    "seq2seq",
    "signal",
    "slim",
    "staging",
    "tensorboard",
    "tpu",
    "training",
    "util",
]


def __getattr__(name: str) -> Any:
    """Import one of them when it is asked for."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in __all__:
        from dtfctl.runtime.api import missing

        raise AttributeError(missing.explain(f"contrib.{name}"))
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
