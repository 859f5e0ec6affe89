"""What is most used of TensorFlow 1's `tf.contrib`: `from dtfctl.contrib import layers, rnn, training, framework`."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

__all__ = [
    "checkpoint",
    "cluster_resolver",
    "crf",
    "data",
    "distribute",
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
    "stateless",
    "tensorboard",
    "tpu",
    "training",
    "util",
]


def __getattr__(name: str) -> Any:
    """Import one of them when it is asked for."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dtfctl.runtime.api import missing

    if name not in __all__:
        raise AttributeError(missing.explain(f"contrib.{name}"))
    module = importlib.import_module(f"{__name__}.{name}")
    for path, part in [("", module), *vars(module).items()]:
        if isinstance(part, ModuleType) and part.__name__.startswith(f"{__name__}.{name}"):
            missing.say_what_is_missing(part, f"contrib.{name}.{path}".rstrip("."))
    return module


def __dir__() -> list[str]:
    return sorted(__all__)
