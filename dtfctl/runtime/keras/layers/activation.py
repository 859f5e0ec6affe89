"""Activations with parameters, as layers."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import activations, constraints, initializers, regularizers
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.core import described
from dtfctl.runtime.ops import math_ops, nn_ops


class _Same(Layer):
    """Base of layers whose outputs are shaped as their inputs; `_arguments` make them again."""

    _arguments: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **{name: getattr(self, name) for name in self._arguments}}


class LeakyReLU(_Same):
    """x where it is positive, alpha * x elsewhere."""

    _arguments = ("alpha",)

    def __init__(self, alpha: float = 0.3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return nn_ops.leaky_relu(inputs, alpha=self.alpha)


class PReLU(_Same):
    """x where it is positive, alpha * x elsewhere, where alpha is learned."""

    _arguments = ("shared_axes",)

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.alpha_initializer = initializers.get(alpha_initializer)
        self.alpha_regularizer = regularizers.get(alpha_regularizer)
        self.alpha_constraint = constraints.get(alpha_constraint)
        self.shared_axes = [shared_axes] if isinstance(shared_axes, int) else shared_axes

    def build(self, input_shape: Any) -> None:
        """Make the slopes."""
        shape = TensorShape(input_shape).as_list()[1:]
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self.alpha = self.add_weight(
            "alpha",
            shape,
            initializer=self.alpha_initializer,
            regularizer=self.alpha_regularizer,
            constraint=self.alpha_constraint,
        )
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return nn_ops.relu(inputs) - self.alpha * nn_ops.relu(-inputs)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), **described(self, "alpha_initializer", "alpha_regularizer", "alpha_constraint")}


class ELU(_Same):
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""

    _arguments = ("alpha",)

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = float(alpha)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return activations.elu(inputs, self.alpha)


class ThresholdedReLU(_Same):
    """x where it is over theta, 0 elsewhere."""

    _arguments = ("theta",)

    def __init__(self, theta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.theta = float(theta)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return inputs * math_ops.cast(inputs > self.theta, inputs.dtype)


class Softmax(_Same):
    """exp(x) / sum(exp(x)) along an axis."""

    _arguments = ("axis",)

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return activations.softmax(inputs, self.axis)


class ReLU(_Same):
    """max(x, 0), with a slope below the threshold and a ceiling if they are given."""

    _arguments = ("max_value", "negative_slope", "threshold")

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0, threshold: float = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_value, self.negative_slope, self.threshold = max_value, float(negative_slope), float(threshold)

    def call(self, inputs: Any) -> Any:
        """Compute the outputs for inputs."""
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)
