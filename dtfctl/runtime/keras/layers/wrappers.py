"""Layers around layers."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import registry
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.ops import array_ops


class Wrapper(Layer):
    """Base of layers around one other."""

    def __init__(self, layer: Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "layer": registry.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the layer that `get_config` described."""
        config = dict(config)
        return cls(provided(Role.LAYER)(config.pop("layer"), custom_objects), **config)


class TimeDistributed(Wrapper):
    """A layer applied to each step of [batch, steps, ...]."""

    def build(self, input_shape: Any) -> None:
        """Make the layer's variables, under this one's scope."""
        shape = TensorShape(input_shape).as_list()
        if not self.layer.built:
            self.layer.build(TensorShape([shape[0], *shape[2:]]))
            self.layer.built = True
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs for inputs."""
        known, dynamic = inputs.shape.as_list(), array_ops.shape(inputs)
        flat = array_ops.reshape(inputs, array_ops.concat([[-1], dynamic[2:]], 0))
        flat.set_shape([None, *known[2:]])
        out = self.layer(flat)
        wide = array_ops.reshape(out, array_ops.concat([dynamic[:2], array_ops.shape(out)[1:]], 0))
        wide.set_shape([known[0], known[1], *out.shape.as_list()[1:]])
        return wide

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: that of the inputs."""
        return mask

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims = TensorShape(input_shape).as_list()
        inner = TensorShape(self.layer.compute_output_shape([dims[0], *dims[2:]])).as_list()
        return TensorShape([dims[0], dims[1], *inner[1:]])


class Bidirectional(Wrapper):
    """A recurrent layer over the steps in both directions.

    Args:
        merge_mode: how outputs are joined: "concat", "sum", "mul", "ave", or None for both.
        backward_layer: the layer that goes backwards, `go_backwards` of its own; one like `layer` when None.
    """

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        if backward_layer is not None and not isinstance(backward_layer, Layer):
            raise ValueError(
                f"`backward_layer` need to be a `tf.keras.layers.Layer` instance. Received: {backward_layer}"
            )
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError('Invalid merge mode. Merge mode should be one of {"sum", "mul", "ave", "concat", None}')
        super().__init__(layer, **kwargs)
        config = layer.get_config()
        self.forward_layer = type(layer).from_config({**config, "name": f"forward_{layer.name}"})
        self._backward_config: Any = None
        if backward_layer is None:
            backwards = {**config, "name": f"backward_{layer.name}", "go_backwards": not config["go_backwards"]}
            self.backward_layer = type(layer).from_config(backwards)
        else:
            self._backward_config = registry.serialize_keras_object(backward_layer)
            _check_pair(self.forward_layer, backward_layer)
            self.backward_layer = backward_layer
            backward_layer._name = f"backward_{backward_layer.name}"
        self.merge_mode, self.return_sequences = merge_mode, layer.return_sequences
        self.return_state, self.supports_masking = layer.return_state, True
        if hasattr(layer, "_batch_input_shape"):
            self._batch_input_shape = layer._batch_input_shape
        # The layer that was given is a pattern for the two.
        self._trackables.pop("layer", None)

    def call(self, inputs: Any, training: Any = None, mask: Any = None, initial_state: Any = None) -> Any:
        """Compute the outputs for inputs."""
        first: dict[str, Any] = {}
        second: dict[str, Any] = {}
        if initial_state is not None:
            half = len(initial_state) // 2
            first["initial_state"], second["initial_state"] = list(initial_state[:half]), list(initial_state[half:])
        if mask is not None:
            first["mask"] = second["mask"] = mask
        y, back = self.forward_layer(inputs, **first), self.backward_layer(inputs, **second)
        states: list[Any] = []
        if self.return_state:
            states = [*y[1:], *back[1:]]
            y, back = y[0], back[0]
        if self.return_sequences:
            back = array_ops.reverse(back, [1])
        joined: dict[str | None, Any] = {
            "concat": lambda: array_ops.concat([y, back], -1),
            "sum": lambda: y + back,
            "ave": lambda: (y + back) / 2,
            "mul": lambda: y * back,
            None: lambda: [y, back],
        }
        out = joined[self.merge_mode]()
        return [*nest.flatten(out), *states] if self.return_state else out

    def _adapted(self, values: list[Any]) -> list[Any]:
        half = len(values) // 2
        return [*self.forward_layer._adapted(values[:half]), *self.backward_layer._adapted(values[half:])]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: that of the inputs, if all steps are given."""
        if not self.return_sequences:
            return None
        return [mask, mask] if self.merge_mode is None else mask

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        own = {} if self._backward_config is None else {"backward_layer": self._backward_config}
        return {**super().get_config(), "merge_mode": self.merge_mode, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the layer that `get_config` described."""
        if config.get("backward_layer") is not None:
            config = {**config, "backward_layer": provided(Role.LAYER)(config["backward_layer"], custom_objects)}
        return super().from_config(config, custom_objects)


def _check_pair(forward: Any, backward: Any) -> None:
    """Check that two layers go the two ways, and give the same."""
    if forward.go_backwards == backward.go_backwards:
        raise ValueError(
            "Forward layer and backward layer should have different `go_backwards` value. "
            f"forward_layer.go_backwards = {forward.go_backwards}, "
            f"backward_layer.go_backwards = {backward.go_backwards}"
        )
    for name in ("stateful", "return_sequences", "return_state"):
        first, second = getattr(forward, name), getattr(backward, name)
        if first != second:
            raise ValueError(
                "Forward layer and backward layer are expected to have the same value for attribute "
                f'"{name}", got "{first}" for forward layer and "{second}" for backward layer'
            )
