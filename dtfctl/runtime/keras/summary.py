"""Models as tables: layers, shapes, parameters, and what is connected to what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.keras.node import history_of


def _is_line(model: Any) -> bool:
    """Tell whether the layers of a model come one after the other, each called once."""
    if model._topology is None:
        return True
    nodes = model._topology.nodes
    layers = [id(node.layer) for node in nodes]
    if len(set(layers)) < len(layers):
        return False
    starts = [node for node in nodes if node.is_input]
    targets = [id(parent) for node in nodes if not node.is_input for parent in node.parents]
    return len(starts) <= 1 and len(set(targets)) == len(targets) and len(targets) == len(nodes) - len(starts)


def _connections(model: Any, layer: Any) -> list[str]:
    """Name what a layer is called with."""
    kept = set(model._topology.nodes)
    sources = [t for node in layer._inbound_nodes if node in kept and not node.is_input for t in node.sources]
    return [f"{h.layer.name}[{h.node_index}][{h.tensor_index}]" for h in map(history_of, sources) if h is not None]


def print_summary(model: Any, line_length: int | None, positions: Any, print_fn: Callable[[str], Any]) -> None:
    """Print the layers, the shapes of their outputs and how many parameters they have."""
    if not model.built and not model.weights:
        raise ValueError(
            "This model has not yet been built. Build the model first by calling "
            "`build()` or calling `fit()` with some "
            "data, or specify an `input_shape` argument in the first layer(s) for automatic build."
        )
    line = _is_line(model)
    width = line_length or (65 if line else 98)
    shares = positions or ([0.45, 0.85, 1.0] if line else [0.33, 0.55, 0.67, 1.0])
    ends = [int(width * p) if shares[-1] <= 1 else int(p) for p in shares]

    def row(fields: list[str]) -> None:
        text = ""
        for field, end in zip(fields, ends):
            text = f"{text}{field} "[:end].ljust(end)
        print_fn(text)

    print_fn(f'Model: "{model.name}"')
    print_fn("_" * width)
    row(["Layer (type)", "Output Shape", "Param #", *([] if line else ["Connected to"])])
    print_fn("=" * width)
    layers = model.layers
    for index, layer in enumerate(layers):
        try:
            shape = str(layer.output_shape)
        except (AttributeError, ValueError):
            shape = "multiple"
        count = layer.count_params() if layer.built else 0
        sources = [] if line else _connections(model, layer)
        row([f"{layer.name} ({type(layer).__name__})", shape, str(count), *sources[:1]])
        for source in sources[1:]:
            row(["", "", "", source])
        print_fn("=" * width if index == len(layers) - 1 else "_" * width)
    trained = sum(int(np.prod(w.shape.as_list())) for w in model.trainable_weights)
    fixed = sum(int(np.prod(w.shape.as_list())) for w in model.non_trainable_weights)
    print_fn(f"Total params: {trained + fixed:,}")
    print_fn(f"Trainable params: {trained:,}")
    print_fn(f"Non-trainable params: {fixed:,}")
    print_fn("_" * width)
