"""Gradients of nn ops, as TensorFlow's nn gradients build them: importing this package registers them."""

from dtfctl.runtime.ops.gradients.nn import (
    activations,
    common,
    convolutions,
    losses,
    normalization,
    pooling,
    ranking,
    recurrent,
    stops,
)

__all__ = [
    "activations",
    "common",
    "convolutions",
    "losses",
    "normalization",
    "pooling",
    "ranking",
    "recurrent",
    "stops",
]
