"""Gradients of nn ops, as TensorFlow's nn gradients build them: importing this package registers them."""

from dtfctl.runtime.ops.gradients.nn import (
    activations,
    convolutions,
    losses,
    normalization,
    pooling,
    ranking,
    recurrent,
)

__all__ = [
    "activations",
    "convolutions",
    "losses",
    "normalization",
    "pooling",
    "ranking",
    "recurrent",
]
