"""Normalizations: over batches, and over the features of each example."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import constraints, initializers, regularizers, state
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.cond import smart_cond
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
        self._fused = self.fused is not False and shape.rank == 4 and self._axis in (1, 3)
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

    def _moved(self, variable: Any, value: Any, rate: Any) -> Any:
        graph = context.get_default_graph()
        with name_scope("AssignMovingAvg") as scope, graph.colocate_with(variable.op):
            delta = (variable - math_ops.cast(value, variable.dtype.base_dtype)) * rate
            return variable.assign_sub(delta, name=scope, read_value=False)

    def _rate(self, training: Any, known: Any) -> Any:
        """Say how far the averages move: not at all unless training."""
        if known:
            return constant(1.0 - self.momentum)
        return smart_cond(training, lambda: constant(1.0 - self.momentum), lambda: constant(0.0))

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs for inputs."""
        training = state.learning_phase() if training is None else training
        if isinstance(training, (bool, int)):
            known: Any = bool(training)
        else:
            known = constant_value(convert_to_tensor(training))
        outputs = (
            self._call_fused(inputs, training, known) if self._fused else self._call_plain(inputs, training, known)
        )
        outputs.set_shape(inputs.shape)
        return outputs

    def _call_fused(self, inputs: Any, training: Any, known: Any) -> Any:
        gamma = self.gamma if self.scale else constant(1.0, dtypes.float32, [self._size])
        beta = self.beta if self.center else constant(0.0, dtypes.float32, [self._size])
        wire = "NHWC" if self._axis == 3 else "NCHW"

        def train() -> Any:
            return nn_ops.fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=wire)

        def infer() -> Any:
            return nn_ops.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                is_training=False,
                data_format=wire,
            )

        outputs, mean, variance = smart_cond(training, train, infer)
        if known is None or known:
            rate = self._rate(training, known)
            self.add_update(self._moved(self.moving_mean, mean, rate))
            self.add_update(self._moved(self.moving_variance, variance, rate))
        return outputs

    def _call_plain(self, inputs: Any, training: Any, known: Any) -> Any:
        rank = inputs.shape.rank
        axes = [i for i in range(rank) if i != self._axis]
        shape = [1] * rank
        shape[self._axis] = self._size

        def wide(v: Any) -> Any:
            return v if v is None or axes == list(range(rank - 1)) else array_ops.reshape(v, shape)

        if known is False:
            mean, variance = self.moving_mean.value(), self.moving_variance.value()
        else:
            batch_mean, batch_variance = nn_ops.moments(inputs, axes)
            mean = smart_cond(training, lambda: batch_mean, self.moving_mean.value)
            variance = smart_cond(training, lambda: batch_variance, self.moving_variance.value)
            for variable, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                self.add_update(self._moved(variable, value, self._rate(training, known)))
        offset = wide(self.beta.value()) if self.center else None
        scale = wide(self.gamma.value()) if self.scale else None
        return nn_ops.batch_normalization(inputs, wide(mean), wide(variance), offset, scale, self.epsilon)

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
