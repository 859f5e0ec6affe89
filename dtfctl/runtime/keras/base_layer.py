"""The base of layers: variables made at the first call, shared with the next ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import constraints, initializers, regularizers, state
from dtfctl.runtime.keras.backend.values import batch_set_value
from dtfctl.runtime.keras.layer_call import CalledLayer
from dtfctl.runtime.keras.node import Node, depends_on, relevant
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.keras.tracking import distinct
from dtfctl.runtime.keras.weights import default_initializer, make_variable
from dtfctl.runtime.ops.layer_arguments import snake_case
from dtfctl.runtime.ops.variables import Variable, VariableAggregation, VariableSynchronization

_KEYWORDS = {"input_shape", "batch_input_shape", "batch_size", "weights", "input_dim", "autocast", "implementation"}


class Layer(CalledLayer):
    """A function with variables of its own: subclasses define `build`, which makes them, and `call`.

    Args:
        trainable: whether its variables are trained.
        name: its scope; made of the class's name, unique in the graph, when None.
        dtype: of its variables; its inputs' when None, or float32.
    """

    _SELF_SETTING_ATTRIBUTES: tuple[str, ...] = ()

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        for key in kwargs:
            if key not in _KEYWORDS:
                raise TypeError(f"Keyword argument not understood: {key}")
        self._trackables = {}
        self._trainable_weights = []
        self._non_trainable_weights = []
        self._take_up_attributes()
        self._trainable = trainable
        self._name = ""
        self._set_name(name)
        self.built = False
        self.stateful = False
        self.supports_masking = False
        self.input_spec: Any = None
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._updates: list[Any] = []
        self._added_losses: list[Any] = []
        self._weight_losses: list[Callable[[], Any]] = []
        self._activity_regularizer = regularizers.get(getattr(self, "activity_regularizer", None))
        self._inbound_nodes: list[Node] = []
        self._outbound_nodes: list[Node] = []
        self._metrics: list[Any] = []
        self._initial_weights = kwargs.get("weights")
        if "input_dim" in kwargs and "input_shape" not in kwargs:
            kwargs["input_shape"] = (kwargs["input_dim"],)
        if "batch_input_shape" in kwargs:
            self._batch_input_shape = tuple(kwargs["batch_input_shape"])
        elif "input_shape" in kwargs:
            self._batch_input_shape = (kwargs.get("batch_size"), *kwargs["input_shape"])

    def _set_name(self, name: str | None) -> None:
        self._name = name if name else state.unique_name(snake_case(type(self).__name__))

    @property
    def submodules(self) -> tuple[Layer, ...]:
        """All layers inside."""
        return tuple(self._all_layers())[1:]

    # What programs ask.

    @property
    def name(self) -> str:
        """The name that its scope has."""
        return self._name

    @property
    def dtype(self) -> Any:
        """The name of its variables' type, None before it is known."""
        return None if self._dtype is None else self._dtype.name

    @property
    def trainable(self) -> bool:
        """Whether its variables, and those of layers in it, are trained."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        for layer in self._all_layers():
            layer._trainable = value

    @property
    def activity_regularizer(self) -> Any:
        """What its outputs add to the loss."""
        return self.__dict__.get("_activity_regularizer")

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer: Any) -> None:
        self._activity_regularizer = regularizer

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that are trained: its own, then those of layers in it."""
        if not self.trainable:
            return []
        return distinct([*self._trainable_weights, *(w for s in self._sublayers() for w in s.trainable_weights)])

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables that are not trained."""
        nested = self._sublayers()
        if self.trainable:
            return distinct([*self._non_trainable_weights, *(w for s in nested for w in s.non_trainable_weights)])
        own = [*self._trainable_weights, *self._non_trainable_weights]
        return distinct([*own, *(w for s in nested for w in s.weights)])

    @property
    def weights(self) -> list[Any]:
        """All variables: those that are trained, then the others."""
        return distinct([*self.trainable_weights, *self.non_trainable_weights])

    variables = property(lambda self: self.weights)
    trainable_variables = property(lambda self: self.trainable_weights)
    non_trainable_variables = property(lambda self: self.non_trainable_weights)

    @property
    def updates(self) -> list[Any]:
        """The ops to run beside training, as those that move averages."""
        if not self.trainable and not self.stateful:
            return []
        return distinct([*self._updates, *(u for s in self._sublayers() for u in s.updates)])

    @property
    def losses(self) -> list[Any]:
        """What is added to the loss: regularizers' charges, made anew each time, and what `add_loss` was given."""
        found = list(self._added_losses)
        found += [charge() for charge in self._weight_losses]
        for layer in self._sublayers():
            found += layer.losses
        return found

    @property
    def metrics(self) -> list[Any]:
        """The metrics in it."""
        return self._added_metrics()

    def _added_metrics(self) -> list[Any]:
        """Return the metrics that it and layers in it added; what models in it are compiled with is none."""
        return [*self._metrics, *(m for s in self._sublayers() for m in s._added_metrics())]

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Return the updates that depend on these inputs; those of no call's inputs when `inputs` is None."""
        return relevant(self.updates, inputs)

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Return the losses that depend on these inputs; those of no call's inputs when `inputs` is None."""
        return relevant(self.losses, inputs)

    # What subclasses define and use.

    def build(self, input_shape: Any) -> None:
        """Make the variables, with `add_weight`, for inputs of this shape."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs for inputs."""
        return inputs

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs.

        Raises:
            TypeError: there is one of the inputs, and the layer does not support masking.
        """
        if not self.supports_masking:
            if any(m is not None for m in nest.flatten(mask)):
                raise TypeError(
                    f"Layer {self.name} does not support masking, but was passed an input_mask: {mask}. "
                    "Set `supports_masking = True` if it may pass the mask on."
                )
            return None
        return mask

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs; layers that are asked for it define this."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say what shape its outputs have: define compute_output_shape"
        )

    def compute_output_signature(self, input_signature: Any) -> Any:
        """Compute shape and type of the outputs."""
        from dtfctl.runtime.ops.function import TensorSpec

        shape = self.compute_output_shape(nest.map_structure(lambda s: s.shape, input_signature))
        dtype = self.dtype or nest.flatten(input_signature)[0].dtype
        return TensorSpec(shape, dtype)

    def add_weight(
        self,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        partitioner: Any = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        **kwargs: Any,
    ) -> Any:
        """Make a variable of this layer, named below its scope.

        Args:
            initializer, regularizer, constraint: objects, or names as in "glorot_uniform".

        Raises:
            ValueError: there is no default initializer for that type.
        """
        for key in kwargs:
            if key not in ("getter", "collections", "caching_device", "autocast", "experimental_autocast"):
                raise TypeError(f"Unknown keyword argument: {key}")
        wanted = as_dtype(dtype or self._dtype or dtypes.float32)
        if self._dtype is None:
            self._dtype = wanted.base_dtype
        initializer, constraint = initializers.get(initializer), constraints.get(constraint)
        regularizer = regularizers.get(regularizer)
        if initializer is None:
            initializer = default_initializer(name, wanted)
        if synchronization is VariableSynchronization.ON_READ:
            trainable = False
        trainable = True if trainable is None else trainable
        variable = self._make_variable(
            name,
            TensorShape(() if shape is None else shape),
            wanted,
            initializer,
            regularizer,
            trainable,
            constraint,
            partitioner=partitioner,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
            **{key: value for key, value in kwargs.items() if key in ("getter", "collections", "caching_device")},
        )
        if name is not None:
            self._trackables[name] = variable
        for v in variable if not isinstance(variable, Variable) and hasattr(variable, "__iter__") else [variable]:
            state.track_variable(v)
            (self._trainable_weights if trainable else self._non_trainable_weights).append(v)
        return variable

    def _make_variable(
        self,
        name: str | None,
        shape: TensorShape,
        dtype: Any,
        initializer: Any,
        regularizer: Any,
        trainable: bool,
        constraint: Any,
        use_resource: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
        partitioner: Any = None,
        getter: Any = None,
    ) -> Any:
        """Make one variable and the charge for it; `tf.layers` has its own way, by name and scope."""
        return make_variable(
            self._weight_losses,
            name,
            shape,
            dtype,
            initializer,
            regularizer,
            trainable,
            constraint,
            use_resource=use_resource,
            collections=collections,
            caching_device=caching_device,
            synchronization=synchronization,
            aggregation=aggregation,
            partitioner=partitioner,
        )

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Make a variable: `add_weight` by its older name."""
        return self.add_weight(*args, **kwargs)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add scalars to the loss of the model that this layer is in; functions are asked when it is made."""
        for loss in losses if isinstance(losses, (list, tuple)) else [losses]:
            if callable(loss):
                self._weight_losses.append(loss)
            else:
                loss._unconditional = inputs is None
                self._added_losses.append(loss)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Run ops beside each step of training."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            made = update() if callable(update) and not isinstance(update, Variable) else update
            op: Any = getattr(made, "op", made)
            callers = state.callers()
            sources = nest.flatten(callers[-1][2]) if callers else []
            op._unconditional = not (sources and depends_on([op], sources)[0])
            self._updates.append(op)

    def add_metric(self, value: Any, aggregation: str | None = None, name: str | None = None) -> None:
        """Report the mean of a tensor's values over the batches of an epoch."""
        if aggregation != "mean":
            raise ValueError('tf.keras add_metric: aggregation must be "mean"; other metrics go to `compile`')
        if name is None:
            raise ValueError("Please provide a name for your metric like `self.add_metric(..., name='my_metric')`")
        for metric in self._metrics:
            if metric.name == name:
                metric(value)
                return
        metric = provided(Role.MEAN_METRIC)(name=name)
        metric(value)
        self._metrics.append(metric)

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Read all variables in Keras's session, in the order of `weights`."""
        return list(state.get_session().run(self.weights)) if self.weights else []

    def set_weights(self, weights: Any) -> None:
        """Give all variables values, in the order of `weights`.

        Raises:
            ValueError: there are more or fewer, or one has another shape.
        """
        variables = self.weights
        if len(variables) != len(weights):
            raise ValueError(
                f'You called `set_weights(weights)` on layer "{self.name}" with a weight list of length '
                f"{len(weights)}, "
                f"but the layer was expecting {len(variables)} weights."
            )
        for v, w in zip(variables, weights):
            if tuple(v.shape.as_list()) != np.shape(w):
                raise ValueError(
                    f"Layer weight shape {v.shape} not compatible with provided weight shape {np.shape(w)}"
                )
        batch_set_value(list(zip(variables, weights)))

    def _adapted(self, values: list[Any]) -> list[Any]:
        """Arrange values of another layer's variables, from a file, as this one's are."""
        return values

    def count_params(self) -> int:
        """Count the numbers that the layer's variables hold.

        Raises:
            ValueError: it is not built, so there are none yet.
        """
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't built. "
                f"You can build it manually via: `{self.name}.build(batch_input_shape)`."
            )
        return int(sum(v.shape.num_elements() or 0 for v in self.weights))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        if hasattr(self, "_batch_input_shape"):
            config["batch_input_shape"] = self._batch_input_shape
        config["dtype"] = self.dtype
        own = set(inspect.signature(type(self).__init__).parameters) - {"self", "args", "kwargs", *config}
        if own and type(self).get_config is Layer.get_config:
            raise NotImplementedError(
                f"Layer {type(self).__name__} has arguments in `__init__` and therefore must override `get_config`."
            )
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make the layer that `get_config` described."""
        return cls(**config)

    # Its calls.

    def _mask_outputs(self, inputs: Any, outputs: Any, masks: Any, kwargs: Any) -> None:
        flat = nest.flatten(outputs)
        if all(getattr(t, "_keras_mask", None) is not None for t in flat):
            return
        if hasattr(self, "_compute_output_and_mask_jointly"):
            return
        if masks is None and type(self).compute_mask is Layer.compute_mask:
            return
        for tensor, mask in zip(flat, nest.flatten(self.compute_mask(inputs, kwargs.get("mask", masks)))):
            if isinstance(tensor, Tensor) and mask is not None:
                tensor._keras_mask = mask  # type: ignore[attr-defined]

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self(inputs, *args, **kwargs)

    # Its nodes in functional models.

    @property
    def inbound_nodes(self) -> list[Node]:
        """The calls of it that are nodes of functional models."""
        return self._inbound_nodes

    @property
    def outbound_nodes(self) -> list[Node]:
        """The calls of other layers with its outputs."""
        return self._outbound_nodes

    def _at(self, index: int, what: str) -> Any:
        if not self._inbound_nodes:
            raise AttributeError(f"Layer {self.name} has no inbound nodes, so it has no {what}: it was never called")
        if index >= len(self._inbound_nodes):
            raise ValueError(f"Asked to get {what} at node {index}, but the layer has only {len(self._inbound_nodes)}")
        return getattr(self._inbound_nodes[index], what)

    def _shape(self, what: str) -> Any:
        """Return the shape that tensors have in all calls, as tuples."""
        self._at(0, what)
        shapes = [
            nest.map_structure(lambda t: tuple(t.shape.as_list()), getattr(node, what)) for node in self._inbound_nodes
        ]
        if any(s != shapes[0] for s in shapes):
            raise AttributeError(
                f'The layer "{self.name}" has multiple inbound nodes with different shapes of its {what}: ask for '
                f"`get_{what[:-1]}_at(node_index).shape`"
            )
        return shapes[0]

    def get_input_at(self, node_index: int) -> Any:
        """Return the inputs of one of its calls."""
        return self._at(node_index, "inputs")

    def get_output_at(self, node_index: int) -> Any:
        """Return the outputs of one of its calls."""
        return self._at(node_index, "outputs")

    @property
    def input(self) -> Any:
        """The inputs of its first call."""
        return self._at(0, "inputs")

    @property
    def output(self) -> Any:
        """The outputs of its first call."""
        return self._at(0, "outputs")

    @property
    def input_shape(self) -> Any:
        """The shape of the inputs, the same in all its calls, as tuples."""
        return self._shape("inputs")

    @property
    def output_shape(self) -> Any:
        """The shape of the outputs, the same in all its calls, as tuples."""
        return self._shape("outputs")

    input_mask = property(lambda self: getattr(self.input, "_keras_mask", None))
    output_mask = property(lambda self: getattr(self.output, "_keras_mask", None))

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} object at {hex(id(self))}>"

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a layer whose variables are in a graph cannot be copied; make another with from_config")
