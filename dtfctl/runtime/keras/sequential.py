"""A model that is a list of layers."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.input_layer import InputLayer
from dtfctl.runtime.keras.node import history_of
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.keras.training import Model


class Sequential(Model):
    """A model whose layers are called one after the other.

    Args:
        layers: the first may say what the inputs are (`input_shape`); else they are made at the first call.
    """

    def __init__(self, layers: Any = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._stack: list[Layer] = []
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Any) -> None:
        """Put a layer on top.

        Raises:
            TypeError: it is none. ValueError: it has several outputs.
        """
        if history_of(layer) is not None:
            layer = layer._keras_history.layer
        if not isinstance(layer, Layer):
            raise TypeError(f"The added layer must be an instance of class Layer. Found: {layer!r}")
        if isinstance(layer, InputLayer):
            if self._stack:
                raise ValueError("An InputLayer is the first of a Sequential model")
            self.outputs = [layer._inbound_nodes[-1].outputs]
        elif not self._stack:
            shape, dtype = _first_shape(layer)
            if shape is not None:
                first = InputLayer(batch_input_shape=shape, dtype=dtype, name=f"{layer.name}_input")
                self._stack.append(first)
                self.outputs = [layer(first._inbound_nodes[-1].outputs)]
        elif self.outputs:
            outputs = layer(self.outputs[0])
            if len(nest.flatten(outputs)) != 1:
                raise ValueError("All layers in a Sequential model should have a single output tensor.")
            self.outputs = [outputs]
        self._stack.append(layer)
        self._connect()

    def pop(self) -> None:
        """Take the last layer off.

        Raises:
            TypeError: there is none.
        """
        if not self.layers:
            raise TypeError("There are no layers in the model.")
        self._stack.pop()
        if not self.layers:
            self._stack.clear()
            self.inputs = self.outputs = self._topology = None
            self.built = False
        elif self._topology is not None:
            self.outputs = [self._stack[-1]._inbound_nodes[-1].outputs]
            self._connect()

    def _connect(self) -> None:
        """Make the functional model of the layers, once the first one's inputs are known."""
        if not self.outputs or not isinstance(self._stack[0], InputLayer):
            self.built = False
            return
        self._init_graph_network(self._stack[0]._inbound_nodes[0].outputs, self.outputs[0])

    @property
    def layers(self) -> list[Layer]:
        """The layers, without the one for the inputs."""
        stack = self.__dict__.get("_stack", [])
        return stack[1:] if stack and isinstance(stack[0], InputLayer) else list(stack)

    def _sublayers(self) -> list[Layer]:
        return list(self.__dict__.get("_stack", []))

    def _trackable_children(self) -> dict[str, Any]:
        attributes = {k: v for k, v in Layer._trackable_children(self).items() if k != "_stack"}
        return {**self._layer_children(), **attributes}

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs for inputs."""
        if self._topology is not None:
            return super().call(inputs, training, mask)
        outputs = inputs
        for layer in self.layers:
            outputs = layer(outputs)
        return outputs

    def predict_proba(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """Compute the outputs for inputs: `predict`."""
        return self.predict(x, batch_size, verbose)

    def predict_classes(self, x: Any, batch_size: int = 32, verbose: int = 0) -> Any:
        """Compute the class of each example: the largest output, or whether the only one is over 0.5."""
        probabilities = self.predict(x, batch_size, verbose)
        if probabilities.shape[-1] > 1:
            return probabilities.argmax(axis=-1)
        return (probabilities > 0.5).astype("int32")

    def get_config(self) -> dict[str, Any]:
        """Return the layers' configurations."""
        from dtfctl.runtime.keras import registry

        layers = [registry.serialize_keras_object(layer) for layer in self.layers]
        config: dict[str, Any] = {"name": self.name, "layers": layers}
        if self._stack and isinstance(self._stack[0], InputLayer):
            config["build_input_shape"] = self._stack[0]._batch_input_shape
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the model that `get_config` described, with new variables."""
        model = cls(name=config.get("name"))
        shape = config.get("build_input_shape")
        made = [provided(Role.LAYER)(c, custom_objects) for c in config["layers"]]
        if shape is not None and made and not hasattr(made[0], "_batch_input_shape"):
            made[0]._batch_input_shape = tuple(shape)
        for layer in made:
            model.add(layer)
        return model


def _first_shape(layer: Layer) -> tuple[Any, Any]:
    """Find shape and type of the inputs that a first layer says it has; of a model, the model's."""
    while isinstance(layer, Model):
        if layer.inputs:
            return tuple(layer.inputs[0].shape.as_list()), layer.inputs[0].dtype
        if not isinstance(layer, Sequential) or not layer.layers:
            return None, None
        layer = layer.layers[0]
    return getattr(layer, "_batch_input_shape", None), layer._dtype
