"""Calling a layer: it is built at the first call, and its outputs remember where they come from."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.call_arguments import as_tensor, call_arguments, settle_training
from dtfctl.runtime.keras.node import Node, history_of
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.keras.tracking import StateHolder
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.input_spec import assert_input_compatibility


class CalledLayer(StateHolder):
    """Base of layers: what happens around `call`, which subclasses define, as `build` and the rest declared here."""

    name: Any
    input_spec: Any
    built: bool
    build: Any
    call: Any
    add_loss: Any
    set_weights: Any
    _dtype: Any
    _activity_regularizer: Any
    _initial_weights: Any
    _mask_outputs: Any

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if "_trackables" not in self.__dict__:
            raise RuntimeError("You must call `super().__init__()` in the layer constructor.")
        inputs = nest.map_structure(as_tensor, inputs)
        flat = nest.flatten(inputs)
        takes, takes_any = call_arguments(getattr(self.call, "__func__", self.call))
        given = dict(kwargs)
        masks = [getattr(t, "_keras_mask", None) for t in flat]
        masks_in = nest.pack_sequence_as(inputs, masks) if nest.is_nested(inputs) else masks[0] if masks else None
        masked = any(m is not None for m in masks)
        if masked and "mask" in takes and "mask" not in kwargs and not args:
            kwargs["mask"] = masks_in
        training = settle_training(kwargs, "training" in takes, takes_any, bool(args))
        node_inputs = self._with_history(inputs, flat)
        with state.calling(self, training, inputs), self._scope():
            assert_input_compatibility(self.input_spec, inputs, self.name)
            self._maybe_build(inputs, flat)
            outputs = self.call(inputs, *args, **kwargs)
            if outputs is None:
                raise ValueError(
                    f"A layer's `call` method should return a Tensor or a list of Tensors, not None (layer: "
                    f"{self.name})."
                )
            outputs = self._recorded(node_inputs, inputs, args, given, outputs)
            self._charge_outputs(inputs, outputs)
            self._mask_outputs(inputs, outputs, masks_in if masked else None, kwargs)
        self._called(inputs, outputs)
        return outputs

    def _called(self, inputs: Any, outputs: Any) -> None:
        """Learn that the layer was called: models remember their first inputs and outputs."""

    def _scope(self) -> Any:
        return name_scope(self.name)

    def _with_history(self, inputs: Any, flat: list[Any]) -> bool:
        """Tell whether this call is a node of a functional model: all inputs come from `tf.keras.Input`."""
        if not flat or not any(isinstance(t, Tensor) for t in flat):
            return False
        if all(history_of(t) is not None for t in flat):
            return True
        return bool(provided(Role.HISTORY)(flat))

    def _maybe_build(self, inputs: Any, flat: list[Any]) -> None:
        if self.built:
            return
        if self._dtype is None and flat:
            dtype = flat[0].dtype.base_dtype
            if dtype.is_floating or dtype.is_complex:
                self._dtype = dtype
        self.build(nest.map_structure(lambda t: t.shape, inputs))
        self.built = True
        if self._initial_weights is not None:
            self.set_weights(self._initial_weights)
            self._initial_weights = None

    def _recorded(self, wanted: bool, inputs: Any, args: Any, kwargs: Any, outputs: Any) -> Any:
        if not wanted:
            return outputs
        flat_in = [id(t) for t in nest.flatten(inputs)]
        if any(id(t) in flat_in for t in nest.flatten(outputs)):
            # A tensor remembers one layer that it comes from.
            with name_scope(self.name):
                outputs = nest.map_structure(lambda t: array_ops.identity(t) if id(t) in flat_in else t, outputs)
        Node(self, inputs, args, kwargs, outputs)
        return outputs

    def _charge_outputs(self, inputs: Any, outputs: Any) -> None:
        if self._activity_regularizer is None:
            return
        with name_scope("ActivityRegularizer"):
            for output in nest.flatten(outputs):
                batch = math_ops.cast(array_ops.shape(output)[0], output.dtype)
                self.add_loss(self._activity_regularizer(output) / batch, inputs)
