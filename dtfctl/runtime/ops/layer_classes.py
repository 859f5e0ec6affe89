"""`tf.layers`: layers as objects, which make their variables at the first call and share them with the next ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collection, get_collection
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import as_shape
from dtfctl.runtime.ops import layers, more_layers
from dtfctl.runtime.ops.input_spec import InputSpec as InputSpec, assert_input_compatibility
from dtfctl.runtime.ops.layer_arguments import snake_case
from dtfctl.runtime.ops.layer_variables import layer_variable
from dtfctl.runtime.ops.variable_scope import variable_scope


class Layer:
    """A function with variables of its own: subclasses define `build`, which makes them, and `call`.

    Args:
        name: its scope; made of the class's name when None.
        trainable: whether its variables are trained.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        self.trainable = trainable
        self._given_name, self._reuse = name, kwargs.pop("_reuse", None)
        self._given_scope = kwargs.pop("_scope", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {next(iter(kwargs))}")
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._scope: Any = None
        self.built = False
        self.input_spec: Any = None
        self._variables: list[Any] = []

    @property
    def name(self) -> str:
        return self._given_name or snake_case(type(self).__name__)

    @property
    def graph(self) -> Any:
        return self._variables[0].graph if self._variables else context.get_default_graph()

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def scope_name(self) -> str:
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self.name}" has not been used yet.'
            )
        return str(self._scope.name)

    @property
    def variables(self) -> list[Any]:
        return list(self._variables)

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for v in self._variables if v.trainable] if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        return [v for v in self._variables if v not in self.trainable_variables]

    weights = property(lambda self: self.variables)
    trainable_weights = property(lambda self: self.trainable_variables)
    non_trainable_weights = property(lambda self: self.non_trainable_variables)

    @property
    def losses(self) -> list[Any]:
        """What its regularizers charge."""
        return get_collection(GraphKeys.REGULARIZATION_LOSSES, f"{self.scope_name}/")

    @property
    def updates(self) -> list[Any]:
        """What must run beside training."""
        return get_collection(GraphKeys.UPDATE_OPS, f"{self.scope_name}/")

    def build(self, input_shape: Any) -> None:
        """Make the variables."""
        self.built = True

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Compute the outputs for inputs."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what shape its outputs have")

    def count_params(self) -> int:
        """Count the numbers that the layer's variables hold."""
        return sum(v.shape.num_elements() or 0 for v in self._variables)

    def add_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        constraint: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Get a variable of this layer, under its scope."""
        variable = layer_variable(
            name,
            None if shape is None else as_shape(shape),
            dtype or self._dtype,
            initializer,
            regularizer,
            trainable and self.trainable,
            constraint=constraint,
            **{k: v for k, v in kwargs.items() if k in ("partitioner", "use_resource", "collections")},
        )
        if variable not in self._variables:
            self._variables.append(variable)
        return variable

    add_weight = add_variable

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = nest.map_structure(convert_to_tensor, inputs)
        with self._entered() as opened:
            assert_input_compatibility(self.input_spec, tensors, self.name)
            if not self.built:
                self.build(nest.map_structure(lambda t: t.shape, tensors))
                self.built = True
            self._scope = opened
            outputs = self.call(tensors, *args, **kwargs)
            if self._activity_regularizer is not None:
                for output in nest.flatten(outputs):
                    add_to_collection(GraphKeys.REGULARIZATION_LOSSES, self._activity_regularizer(output))
            return outputs

    apply = __call__

    def _entered(self) -> Any:
        if self._scope is not None:
            return variable_scope(self._scope, reuse=True)
        scope = self._given_scope or (self.name if self._reuse else None)
        return variable_scope(scope, self.name, reuse=self._reuse)

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a layer whose variables are in a graph cannot be copied; make another")


class FunctionLayer(Layer):
    """One of `tf.layers`' functions as a layer: made with its arguments but the inputs."""

    _function: Callable[..., Tensor]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = {key: kwargs.pop(key) for key in ("dtype", "_scope", "_reuse") if key in kwargs}
        bound = inspect.signature(type(self)._function).bind(None, *args, **kwargs)
        bound.apply_defaults()
        options = dict(bound.arguments)
        options.pop("inputs")
        options.pop("reuse", None)
        super().__init__(trainable=options.get("trainable", True), name=options.pop("name"), **own)
        self._options = options

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("_options", {})
        if name in options:
            return options[name]
        for variable in self.__dict__.get("_variables", ()):
            if variable.op.name.endswith(f"/{name}"):
                return variable
        if self.__dict__.get("built") and f"{name}_initializer" in options:
            return None  # made without it: `use_bias=False`
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        reused = self._scope is not None
        if not reused:
            scope = self._given_scope or (self.name if self._reuse else None)
            with variable_scope(scope, self.name, reuse=self._reuse, auxiliary_name_scope=False) as opened:
                self._scope = opened
        options = dict(self._options)
        if "training" in kwargs or args:
            options["training"] = kwargs.get("training", args[0] if args else None)
        takes = inspect.signature(type(self)._function).parameters
        if "reuse" in takes:
            options["reuse"] = True if reused else self._reuse
            options["name"] = self._scope
        else:
            options["name"] = self.name
        out = type(self)._function(inputs, **options)
        if not self._variables and "reuse" in takes:
            self._variables = get_collection(GraphKeys.GLOBAL_VARIABLES, f"{self._scope.name}/")
        self.built = True
        return out

    apply = __call__

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Compute the outputs for inputs."""
        return self(inputs, **kwargs)


class Dense(FunctionLayer):
    """`tf.layers.dense` as a layer."""

    _function = staticmethod(layers.dense)


class Dropout(FunctionLayer):
    """`tf.layers.dropout` as a layer; `training` is given when it is called."""

    _function = staticmethod(layers.dropout)


class Flatten(FunctionLayer):
    """`tf.layers.flatten` as a layer."""

    _function = staticmethod(layers.flatten)


class BatchNormalization(FunctionLayer):
    """`tf.layers.batch_normalization` as a layer; `training` is given when it is called."""

    _function = staticmethod(layers.batch_normalization)


class Conv1D(FunctionLayer):
    """`tf.layers.conv1d` as a layer."""

    _function = staticmethod(layers.conv1d)


class Conv2D(FunctionLayer):
    """`tf.layers.conv2d` as a layer."""

    _function = staticmethod(layers.conv2d)


class Conv3D(FunctionLayer):
    """`tf.layers.conv3d` as a layer."""

    _function = staticmethod(more_layers.conv3d)


class Conv2DTranspose(FunctionLayer):
    """`tf.layers.conv2d_transpose` as a layer."""

    _function = staticmethod(more_layers.conv2d_transpose)


class Conv3DTranspose(FunctionLayer):
    """`tf.layers.conv3d_transpose` as a layer."""

    _function = staticmethod(more_layers.conv3d_transpose)


class SeparableConv1D(FunctionLayer):
    """`tf.layers.separable_conv1d` as a layer."""

    _function = staticmethod(more_layers.separable_conv1d)


class SeparableConv2D(FunctionLayer):
    """`tf.layers.separable_conv2d` as a layer."""

    _function = staticmethod(more_layers.separable_conv2d)


class MaxPooling1D(FunctionLayer):
    """`tf.layers.max_pooling1d` as a layer."""

    _function = staticmethod(more_layers.max_pooling1d)


class MaxPooling2D(FunctionLayer):
    """`tf.layers.max_pooling2d` as a layer."""

    _function = staticmethod(layers.max_pooling2d)


class MaxPooling3D(FunctionLayer):
    """`tf.layers.max_pooling3d` as a layer."""

    _function = staticmethod(more_layers.max_pooling3d)


class AveragePooling1D(FunctionLayer):
    """`tf.layers.average_pooling1d` as a layer."""

    _function = staticmethod(more_layers.average_pooling1d)


class AveragePooling2D(FunctionLayer):
    """`tf.layers.average_pooling2d` as a layer."""

    _function = staticmethod(layers.average_pooling2d)


class AveragePooling3D(FunctionLayer):
    """`tf.layers.average_pooling3d` as a layer."""

    _function = staticmethod(more_layers.average_pooling3d)
