"""Layers made of layers: functional models, and the parts that all models share."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import state, weight_files
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.description import network_config, network_from_config
from dtfctl.runtime.keras.node import history_of
from dtfctl.runtime.keras.summary import print_summary
from dtfctl.runtime.keras.topology import Topology, map_graph


class Network(Layer):
    """A layer made of layers: given by inputs and outputs, or by a subclass with `call`."""

    # As in TensorFlow, a model's constructor comes first.
    _takes_up_attributes = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(("inputs", "outputs", "name"), args)) | kwargs
        name = given.pop("name", None)
        inputs, outputs = given.pop("inputs", None), given.pop("outputs", None)
        trainable = given.pop("trainable", True)
        if len(args) > 3:
            raise TypeError("Model takes inputs, outputs and a name")
        super().__init__(name=name, trainable=trainable, **given)
        self.inputs: list[Any] | None = None
        self.outputs: list[Any] | None = None
        self.input_names: list[str] = []
        self.output_names: list[str] = []
        self._topology: Topology | None = None
        self._nested: tuple[Any, Any] = (None, None)
        self.supports_masking = True
        if (inputs is None) != (outputs is None):
            raise ValueError("Model takes both `inputs` and `outputs`, or neither: then a subclass defines `call`")
        if inputs is not None:
            self._init_graph_network(inputs, outputs)

    def _init_graph_network(self, inputs: Any, outputs: Any) -> None:
        from dtfctl.runtime.keras.op_layer import create_history

        flat_in, flat_out = nest.flatten(inputs), nest.flatten(outputs)
        for tensor in flat_in:
            history = history_of(tensor)
            if history is None:
                raise ValueError(
                    f"Input tensors to a Model must come from `tf.keras.Input`. Received: {tensor} "
                    "(missing previous layer metadata)."
                )
        for tensor in flat_out:
            if history_of(tensor) is None and not create_history([tensor]):
                raise ValueError(
                    "Output tensors to a Model must be the output of a TensorFlow `Layer` (thus holding past layer "
                    f"metadata). Found: {tensor}"
                )
        self._nested = (inputs, outputs)
        self.inputs, self.outputs = flat_in, flat_out
        self._topology = map_graph(flat_in, flat_out)
        self.input_names = [history_of(t).layer.name for t in flat_in]  # type: ignore[union-attr]
        self.output_names = _unique([history_of(t).layer.name for t in flat_out])  # type: ignore[union-attr]
        self.built = True

    # What is in it.

    @property
    def layers(self) -> list[Layer]:
        """The layers: in the order of computation, or of the attributes that hold them."""
        return self._sublayers()

    def _sublayers(self) -> list[Layer]:
        attributes = super()._sublayers()
        if self._topology is None:
            return attributes
        mine = {id(layer) for layer in self._topology.layers}
        return [*self._topology.layers, *(layer for layer in attributes if id(layer) not in mine)]

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that are trained, layer by layer."""
        if not self.trainable:
            return []
        found = [w for layer in self._sublayers() for w in layer.trainable_weights] + self._trainable_weights
        return list({id(w): w for w in found}.values())

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables that are not trained, layer by layer."""
        layers = self._sublayers()
        found = [w for layer in layers for w in layer.non_trainable_weights]
        if self.trainable:
            found += self._non_trainable_weights
        else:
            found = [w for layer in layers for w in layer.trainable_weights] + self._trainable_weights + found
            found += self._non_trainable_weights
        return list({id(w): w for w in found}.values())

    @property
    def weights(self) -> list[Any]:
        """All variables, layer by layer."""
        found = [w for layer in self._sublayers() for w in layer.weights]
        found += [*self._trainable_weights, *self._non_trainable_weights]
        return list({id(w): w for w in found}.values())

    def get_weights(self) -> list[Any]:
        """Read all variables, layer by layer."""
        weights = [w for layer in self.layers for w in layer.weights]
        return list(state.get_session().run(weights)) if weights else []

    @property
    def stateful(self) -> bool:
        """Whether a layer keeps states between batches."""
        return any(getattr(layer, "stateful", False) for layer in self._sublayers())

    @stateful.setter
    def stateful(self, value: bool) -> None:
        if value:
            raise ValueError("a model is stateful if a layer of it is")

    def reset_states(self) -> None:
        """Set the states that layers keep between batches to zero."""
        for layer in self._sublayers():
            if hasattr(layer, "reset_states") and getattr(layer, "stateful", False):
                layer.reset_states()

    @property
    def state_updates(self) -> list[Any]:
        """The updates of layers that keep states between batches."""
        return [u for layer in self._sublayers() if getattr(layer, "stateful", False) for u in layer.updates]

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """Find a layer by name or index.

        Raises:
            ValueError: there is none, or neither is given.
        """
        if index is not None:
            if index >= len(self.layers):
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model only has {len(self.layers)} layers."
                )
            return self.layers[index]
        if not name:
            raise ValueError("Provide either a layer name or layer index.")
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}. Existing layers are: {[layer.name for layer in self.layers]}.")

    def _trackable_children(self) -> dict[str, Any]:
        children = self._layer_children() if self._topology is not None else {}
        return {**children, **super()._trackable_children()}

    def _layer_children(self) -> dict[str, Any]:
        children: dict[str, Any] = {}
        with_weights = 0
        for index, layer in enumerate(self.layers):
            if layer.weights:
                children[f"layer_with_weights-{with_weights}"] = layer
                with_weights += 1
            children[f"layer-{index}"] = layer
        return children

    # The call.

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of this shape."""
        if self._topology is not None or self.built:
            self.built = True
            return
        from dtfctl.runtime.framework import dtypes
        from dtfctl.runtime.ops.array_ops import placeholder

        if not state.callers() or state.callers()[-1][0] is not self:
            # Asked for by the program: the layers make their variables when they are called.
            several = isinstance(input_shape, list) and input_shape and isinstance(input_shape[0], (list, tuple))
            shapes = input_shape if several else [input_shape]
            inputs = [placeholder(self._dtype or dtypes.float32, s) for s in shapes]
            self(inputs if several else inputs[0])
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Compute the outputs for inputs."""
        if self._topology is None:
            raise NotImplementedError("When subclassing the `Model` class, you should implement a `call` method.")
        assert self.inputs is not None and self.outputs is not None
        flat = nest.flatten(inputs)
        if len(flat) != len(self.inputs):
            raise ValueError(f"Model {self.name} has {len(self.inputs)} inputs, but was called with {len(flat)}")
        known: dict[int, Any] = {}
        for mine, given in zip(self.inputs, flat):
            known[id(mine)] = given
        for node in self._topology.nodes:
            outputs = nest.flatten(node.outputs)
            if all(id(t) in known for t in outputs):
                continue
            args, kwargs = _replaced(node.args, known), _replaced(node.kwargs, known)
            made = node.layer(_replaced(node.inputs, known), *args, **kwargs)
            for old, new in zip(outputs, nest.flatten(made)):
                known[id(old)] = new
        flat_outputs = [known[id(t)] for t in self.outputs]
        nested = self._nested[1]
        return nest.pack_sequence_as(nested, flat_outputs) if nest.is_nested(nested) else flat_outputs[0]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return the masks that the last layers made."""
        return None

    def _mask_outputs(self, inputs: Any, outputs: Any, masks: Any, kwargs: Any) -> None:
        """Leave the outputs with the masks that the last layers gave them."""

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs, layer by layer."""
        if self._topology is None or self.inputs is None or self.outputs is None:
            return super().compute_output_shape(input_shape)
        several = len(self.inputs) > 1
        shapes = {id(t): tuple(s) for t, s in zip(self.inputs, input_shape if several else [input_shape])}
        for node in self._topology.nodes:
            outputs = nest.flatten(node.outputs)
            if all(id(t) in shapes for t in outputs):
                continue
            given = [shapes[id(t)] for t in nest.flatten(node.inputs)]
            made = node.layer.compute_output_shape(given if len(given) > 1 else given[0])
            for tensor, shape in zip(outputs, made if len(outputs) > 1 else [made]):
                shapes[id(tensor)] = tuple(shape)
        found = [shapes[id(t)] for t in self.outputs]
        return found if len(found) > 1 else found[0]

    # As others see it.

    @property
    def input(self) -> Any:
        """The inputs: one tensor, or as they were given."""
        return self._one(self.inputs)

    @property
    def output(self) -> Any:
        """The outputs: one tensor, or as they were given."""
        return self._one(self.outputs)

    def _at(self, index: int, what: str) -> Any:
        if self._topology is None:
            return super()._at(index, what)
        # What it was made of counts as its first call.
        return super()._at(index - 1, what) if index else self._one(getattr(self, what))

    def _shape(self, what: str) -> Any:
        return nest.map_structure(lambda t: tuple(t.shape.as_list()), self._one(getattr(self, what)))

    def _one(self, tensors: list[Any] | None) -> Any:
        if not tensors:
            raise AttributeError(f"Model {self.name} has no inputs and outputs yet: it was not called")
        return tensors[0] if len(tensors) == 1 else tensors

    def summary(self, line_length: int | None = None, positions: Any = None, print_fn: Any = None) -> None:
        """Print the layers, the shapes of their outputs and how many parameters they have."""
        print_summary(self, line_length, positions, print_fn or print)

    def save_weights(self, filepath: str, overwrite: bool = True, save_format: str | None = None) -> None:
        """Write the variables: as a checkpoint, or as HDF5 if the name ends in .h5 (needs h5py).

        Args:
            save_format: "tf" or "h5"; by the name's end when None.
        """
        weight_files.save_weights(self, filepath, overwrite, save_format)

    def _adapted(self, values: list[Any]) -> list[Any]:
        counts = [len(layer.weights) for layer in self.layers]
        if sum(counts) != len(values):
            return values
        ends = [sum(counts[: i + 1]) for i in range(len(counts))]
        parts = [values[end - count : end] for end, count in zip(ends, counts)]
        return [value for layer, part in zip(self.layers, parts) for value in layer._adapted(part)]

    def load_weights(self, filepath: str, by_name: bool = False) -> Any:
        """Read the variables from what `save_weights` wrote, here or in TensorFlow."""
        return weight_files.load_weights(self, filepath, by_name)

    def get_config(self) -> dict[str, Any]:
        """Return layers and their calls, from which `from_config` makes the model anew.

        Raises:
            NotImplementedError: it is a subclass with `call`: its code is its configuration.
        """
        return network_config(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the model that `get_config` described, with new variables."""
        return network_from_config(cls, config, custom_objects)

    def to_json(self, **kwargs: Any) -> str:
        """Write class and configuration as JSON."""
        return weight_files.to_json(self, **kwargs)


def _replaced(structure: Any, known: dict[int, Any]) -> Any:
    if isinstance(structure, Tensor):
        return known.get(id(structure), structure)
    if isinstance(structure, dict):
        return {key: _replaced(value, known) for key, value in structure.items()}
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(_replaced(v, known) for v in structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(_replaced(v, known) for v in structure)
    return known.get(id(structure), structure)


def _unique(names: list[str]) -> list[str]:
    """Number names that come more than once."""
    counts: dict[str, int] = {}
    out = []
    for name in names:
        seen = counts.get(name, 0)
        counts[name] = seen + 1
        out.append(f"{name}_{seen}" if seen else name)
    return out
