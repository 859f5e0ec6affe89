"""`tf.keras` as programs of TensorFlow 1 use it, in graph mode: layers, models, and what they are trained with.

It is imported when a program first asks for it.
"""

from __future__ import annotations

from dtfctl.runtime.keras import (
    activations,
    backend,
    callbacks,
    constraints,
    datasets,
    initializers,
    layers,
    losses,
    metrics,
    models,
    op_layer as op_layer,
    optimizers,
    preprocessing,
    regularizers,
    saving,
    utils,
)
from dtfctl.runtime.keras.input_layer import Input
from dtfctl.runtime.keras.sequential import Sequential
from dtfctl.runtime.keras.training import Model

__version__ = "2.2.4-tf"

__all__ = [
    "Input",
    "Model",
    "Sequential",
    "activations",
    "backend",
    "callbacks",
    "constraints",
    "datasets",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "preprocessing",
    "regularizers",
    "saving",
    "utils",
]


def __dir__() -> list[str]:
    return __all__
