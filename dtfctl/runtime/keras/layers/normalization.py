"""Normalizations: over batches, and over the features of each example."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import constraints, initializers, regularizers, state
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.ops import array_ops, nn_ops
from dtfctl.runtime.ops.batch_normalization import can_be_fused, normalize_batch
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization


class BatchNormalization(Layer):
    """Normalize each channel over the batch (Ioffe & Szegedy, 2015).

    While training it uses the batch's moments, and `updates` has the ops that move the averages used otherwise: `fit`
    runs them; a program with its own train op runs them beside it.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        if renorm or virtual_batch_size is not None:
            raise NotImplementedError("BatchNormalization: renorm and virtual_batch_size are not supported")
        for name in ("renorm_clipping", "renorm_momentum", "adjustment"):
            kwargs.pop(name, None)
        super().__init__(trainable=trainable, **kwargs)
        if isinstance(axis, (list, tuple)):
            if len(axis) != 1:
                raise NotImplementedError("BatchNormalization: one axis only")
            axis = axis[0]
        self.axis, self.momentum, self.epsilon, self.center, self.scale = axis, momentum, epsilon, center, scale
        self.beta_initializer, self.gamma_initializer = (
            initializers.get(beta_initializer),
            initializers.get(gamma_initializer),
        )
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)
        self.beta_regularizer, self.gamma_regularizer = (
            regularizers.get(beta_regularizer),
            regularizers.get(gamma_regularizer),
        )
        self.beta_constraint, self.gamma_constraint = (
            constraints.get(beta_constraint),
            constraints.get(gamma_constraint),
        )
        self.supports_masking, self.fused = True, fused
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: Any) -> None:
        """Make scale, offset and the moving averages."""
        shape = TensorShape(input_shape)
        if shape.rank is None:
            raise ValueError("BatchNormalization needs inputs of known rank")
        self._axis = self.axis % shape.rank
        size = shape.as_list()[self._axis]
        if size is None:
            raise ValueError(f"There are undefined dimensions that normalization needs: axis {self.axis} of {shape}")
        self._fused = can_be_fused(shape.rank, self._axis, dtypes.float32, self.fused)
        dtype = dtypes.float32
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                (size,),
                dtype,
                self.gamma_initializer,
                self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta", (size,), dtype, self.beta_initializer, self.beta_regularizer, constraint=self.beta_constraint
            )
        # Under a strategy every replica moves its own.
        own: dict[str, Any] = {
            "trainable": False,
            "synchronization": VariableSynchronization.ON_READ,
            "aggregation": VariableAggregation.MEAN,
        }
        self.moving_mean = self.add_weight("moving_mean", (size,), dtype, self.moving_mean_initializer, **own)
        self.moving_variance = self.add_weight(
            "moving_variance", (size,), dtype, self.moving_variance_initializer, **own
        )
        self._size = size
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs for inputs."""
        return normalize_batch(
            inputs,
            self._axis,
            self.gamma,
            self.beta,
            self.moving_mean,
            self.moving_variance,
            self.epsilon,
            self.momentum,
            state.learning_phase() if training is None else training,
            self._fused,
            self.add_update,
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = ("axis", "momentum", "epsilon", "center", "scale", "beta_initializer", "gamma_initializer")
        more = ("moving_mean_initializer", "moving_variance_initializer", "beta_regularizer", "gamma_regularizer")
        return {**super().get_config(), **described(self, *names, *more, "beta_constraint", "gamma_constraint")}


class LayerNormalization(Layer):
    """Normalize the features of each example by themselves (Ba et al., 2016)."""

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis = [axis] if isinstance(axis, int) else list(axis)
        self.epsilon, self.center, self.scale, self.supports_masking = epsilon, center, scale, True
        self.beta_initializer, self.gamma_initializer = (
            initializers.get(beta_initializer),
            initializers.get(gamma_initializer),
        )
        self.beta_regularizer = regularizers.get(beta_regularizer)
        self.gamma_regularizer = regularizers.get(gamma_regularizer)
        self.beta_constraint = constraints.get(beta_constraint)
        self.gamma_constraint = constraints.get(gamma_constraint)
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: Any) -> None:
        """Make scale and offset."""
        dims = TensorShape(input_shape).as_list()
        self._axes = [a % len(dims) for a in self.axis]
        self._wide = [n if i in self._axes else 1 for i, n in enumerate(dims)]
        shape = [dims[a] for a in self._axes]
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                shape,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                shape,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        mean, variance = nn_ops.moments(inputs, self._axes, keep_dims=True)
        gamma = array_ops.reshape(self.gamma, self._wide) if self.scale else None
        beta = array_ops.reshape(self.beta, self._wide) if self.center else None
        outputs = nn_ops.batch_normalization(inputs, mean, variance, beta, gamma, self.epsilon)
        outputs.set_shape(inputs.shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = ("axis", "epsilon", "center", "scale", "beta_initializer", "gamma_initializer")
        more = ("beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint")
        return {**super().get_config(), **described(self, *names, *more)}
