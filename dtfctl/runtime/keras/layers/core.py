"""Layers that are not of one kind: dense, shapes, functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import activations, constraints, initializers, regularizers
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.input_spec import InputSpec


def last_size(shape: Any, axis: int = -1) -> int:
    """Return the size of an axis.

    Raises:
        ValueError: it is unknown.
    """
    size = TensorShape(shape).as_list()[axis]
    if size is None:
        raise ValueError(
            f"The axis {axis} of the inputs must have a known size: the layer's variables need it. Got {shape}"
        )
    return size


def described(layer: Any, *names: str) -> dict[str, Any]:
    """Describe arguments of a layer that `get_config` gives: objects by name and configuration."""
    makers = {
        "activation": activations.serialize,
        "initializer": initializers.serialize,
        "regularizer": regularizers.serialize,
        "constraint": constraints.serialize,
    }
    out = {}
    for name in names:
        maker = makers.get(name.rpartition("_")[2])
        value = getattr(layer, name)
        out[name] = maker(value) if maker is not None else value
    return out


class Dense(Layer):
    """activation(inputs . kernel + bias) over the last axis: [..., n] -> [..., units]."""

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        self.units, self.use_bias = int(units), use_bias
        self.activation = activations.get(activation)
        self.kernel_initializer, self.bias_initializer = (
            initializers.get(kernel_initializer),
            initializers.get(bias_initializer),
        )
        self.kernel_regularizer, self.bias_regularizer = (
            regularizers.get(kernel_regularizer),
            regularizers.get(bias_regularizer),
        )
        self.kernel_constraint, self.bias_constraint = (
            constraints.get(kernel_constraint),
            constraints.get(bias_constraint),
        )
        self.supports_masking = True
        self.input_spec = InputSpec(min_ndim=2)
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        size = last_size(input_shape)
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel",
            [size, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
            trainable=True,
        )
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                trainable=True,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        if inputs.dtype.base_dtype.is_integer:
            inputs = math_ops.cast(inputs, self._dtype)
        if inputs.shape.rank in (None, 2):
            outputs = math_ops.matmul(inputs, self.kernel)
        else:
            outputs = math_ops.tensordot(inputs, self.kernel, [[inputs.shape.rank - 1], [0]])
            outputs.set_shape(inputs.shape[:-1].concatenate([self.units]))
        if self.use_bias:
            outputs = nn_ops.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return TensorShape(input_shape)[:-1].concatenate([self.units])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = ("units", "activation", "use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer")
        rest = ("bias_regularizer", "activity_regularizer", "kernel_constraint", "bias_constraint")
        return {**super().get_config(), **described(self, *names, *rest)}


class Flatten(Layer):
    """[batch, ...] -> [batch, n]."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format or "channels_last"
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        rank = inputs.shape.rank
        if self.data_format == "channels_first" and rank is not None and rank > 2:
            inputs = array_ops.transpose(inputs, [0, *range(2, rank), 1])
        if rank == 1:
            return array_ops.expand_dims(inputs, -1)
        dims: list[Any] = inputs.shape.as_list()
        rest = None if None in dims[1:] else int(np.prod(dims[1:]))
        if rest is not None:
            outputs = array_ops.reshape(inputs, [-1, rest])
        else:
            outputs = array_ops.reshape(inputs, array_ops.stack([array_ops.shape(inputs)[0], -1]))
        outputs.set_shape([dims[0], rest])
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims: list[Any] = TensorShape(input_shape).as_list()
        return TensorShape([dims[0], None if None in dims[1:] else int(np.prod(dims[1:]))])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "data_format": self.data_format}


class Reshape(Layer):
    """[batch, ...] -> [batch, *target_shape]; one size may be -1."""

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        outputs = array_ops.reshape(inputs, array_ops.stack([array_ops.shape(inputs)[0], *self.target_shape]))
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims: list[Any] = TensorShape(input_shape).as_list()
        target = list(self.target_shape)
        if -1 in target:
            known = int(np.prod([d for d in target if d != -1]))
            rest: Any = None if None in dims[1:] else int(np.prod(dims[1:])) // known
            target[target.index(-1)] = rest
        return TensorShape([dims[0], *target])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "target_shape": self.target_shape}


class Permute(Layer):
    """Arrange the axes anew; counted from 1, without the batch."""

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Invalid permutation `dims` for Permute Layer: {self.dims}")
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return array_ops.transpose(inputs, perm=(0, *self.dims))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims: list[Any] = TensorShape(input_shape).as_list()
        return TensorShape([dims[0], *(dims[d] for d in self.dims)])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "dims": self.dims}


class RepeatVector(Layer):
    """[batch, d] -> [batch, n, d]."""

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n = n
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return array_ops.tile(array_ops.expand_dims(inputs, 1), [1, self.n, 1])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        dims: list[Any] = TensorShape(input_shape).as_list()
        return TensorShape([dims[0], self.n, dims[1]])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "n": self.n}


class Activation(Layer):
    """An activation as a layer."""

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return self.activation(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "activation")}


class Masking(Layer):
    """Mask the steps of [batch, steps, d] in which all elements are `mask_value`."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking, self.mask_value = True, mask_value

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs."""
        return math_ops.reduce_any(math_ops.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        kept = math_ops.reduce_any(math_ops.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return inputs * math_ops.cast(kept, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "mask_value": self.mask_value}


class ActivityRegularization(Layer):
    """Add l1 * sum(abs(x)) + l2 * sum(square(x)) of what passes to the loss."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._activity_regularizer = regularizers.L1L2(l1=l1, l2=l2)
        self.supports_masking, self.l1, self.l2 = True, l1, l2

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "l1": self.l1, "l2": self.l2}


class Embedding(Layer):
    """Rows of a matrix by number: [...] -> [..., output_dim].

    Args:
        mask_zero: mask the steps whose number is 0.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: Any = None,
        **kwargs: Any,
    ) -> None:
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            lengths = input_length if isinstance(input_length, (list, tuple)) else (input_length,)
            kwargs["input_shape"] = lengths if input_length else (None,)
        dtype = kwargs.pop("dtype", "float32")
        super().__init__(dtype=dtype, **kwargs)
        self._activity_regularizer = regularizers.get(activity_regularizer)
        self.input_dim, self.output_dim, self.input_length = input_dim, output_dim, input_length
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.embeddings_regularizer = regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = constraints.get(embeddings_constraint)
        self.mask_zero = self.supports_masking = mask_zero

    def build(self, input_shape: Any) -> None:
        """Make the matrix."""
        self.embeddings = self.add_weight(
            "embeddings",
            (self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs."""
        return math_ops.not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return TensorShape(input_shape).concatenate([self.output_dim])

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        from dtfctl.runtime.ops.embedding_ops import embedding_lookup

        if inputs.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            inputs = math_ops.cast(inputs, dtypes.int32)
        return embedding_lookup(self.embeddings, inputs)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = ("input_dim", "output_dim", "embeddings_initializer", "embeddings_regularizer", "activity_regularizer")
        return {**super().get_config(), **described(self, *names, "embeddings_constraint", "mask_zero", "input_length")}
