"""Layers that draw noise while training: dropout, and noise that is added or multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.layers.spatial import checked_format
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops, random_ops
from dtfctl.runtime.ops.cond import smart_cond
from dtfctl.runtime.ops.input_spec import InputSpec


class _Noise(Layer):
    """Base of layers that pass inputs on as they are, but while training.

    Args:
        seed: of the first call; each call of the layer has a seed of its own.
    """

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking, self.seed = True, seed
        self._drawn = 0

    def _next_seed(self) -> int | None:
        if self.seed is None:
            return None
        self._drawn += 1
        return self.seed + self._drawn - 1

    def _noised(self, inputs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what its noise is: define _noised")

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs for inputs."""
        training = state.learning_phase() if training is None else training
        return smart_cond(training, lambda: self._noised(inputs), lambda: array_ops.identity(inputs))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "seed": self.seed}


class Dropout(_Noise):
    """A layer that, while training, zeroes a fraction `rate` of the elements and scales up the others."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
            raise ValueError(f"Invalid value {rate} received for `rate`, expected a value between 0 and 1.")
        self.rate, self.noise_shape = rate, noise_shape

    def _get_noise_shape(self, inputs: Any) -> Any:
        if self.noise_shape is None:
            return None
        sizes = array_ops.shape(inputs)
        return array_ops.stack([sizes[i] if n is None else n for i, n in enumerate(self.noise_shape)])

    def _noised(self, inputs: Any) -> Any:
        shape = self._get_noise_shape(inputs)
        return nn_ops.dropout(inputs, rate=self.rate, noise_shape=shape, seed=self._next_seed())

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Compute the outputs for inputs."""
        if isinstance(self.rate, (int, float)) and self.rate == 0:
            return array_ops.identity(inputs)
        return super().call(inputs, training)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "rate": self.rate, "noise_shape": self.noise_shape}


class _SpatialDropout(Dropout):
    """Base of dropouts of whole channels, over `rank` axes."""

    rank = 2

    def __init__(self, rate: float, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        self.data_format = checked_format(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _get_noise_shape(self, inputs: Any) -> Any:
        sizes, ones = array_ops.shape(inputs), [1] * self.rank
        if self.data_format == "channels_last":
            return array_ops.stack([sizes[0], *ones, sizes[self.rank + 1]])
        return array_ops.stack([sizes[0], sizes[1], *ones])


class SpatialDropout1D(_SpatialDropout):
    """Dropout of whole channels of [batch, steps, channels]."""

    rank = 1

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(rate, "channels_last", **kwargs)


class SpatialDropout2D(_SpatialDropout):
    """Dropout of whole channels of images."""


class SpatialDropout3D(_SpatialDropout):
    """Dropout of whole channels of volumes."""

    rank = 3


class GaussianNoise(_Noise):
    """A layer that adds normal noise while training."""

    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self.stddev = stddev

    def _noised(self, inputs: Any) -> Any:
        dtype = inputs.dtype.base_dtype
        return inputs + random_ops.random_normal(array_ops.shape(inputs), 0.0, self.stddev, dtype, self._next_seed())

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "stddev": self.stddev}


class GaussianDropout(_Noise):
    """A layer that multiplies by normal noise around 1 while training, as wide as dropout of `rate` makes it."""

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self.rate = rate

    def _noised(self, inputs: Any) -> Any:
        if not 0 < self.rate < 1:
            return array_ops.identity(inputs)
        width, dtype = float(np.sqrt(self.rate / (1.0 - self.rate))), inputs.dtype.base_dtype
        return inputs * random_ops.random_normal(array_ops.shape(inputs), 1.0, width, dtype, self._next_seed())

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "rate": self.rate}


# What `selu` goes to for inputs that are far below zero.
_LOWEST = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946


class AlphaDropout(_Noise):
    """Dropout that keeps mean and variance of what `selu` gives: it sets elements to selu's lowest value."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self.rate, self.noise_shape = rate, noise_shape

    def _noised(self, inputs: Any) -> Any:
        rate = self.rate
        if not 0 < rate < 1:
            return array_ops.identity(inputs)
        shape = self.noise_shape if self.noise_shape else array_ops.shape(inputs)
        drawn = random_ops.random_uniform(shape, seed=self._next_seed())
        kept = math_ops.cast(math_ops.greater_equal(drawn, rate), inputs.dtype.base_dtype)
        scale = ((1 - rate) * (1 + rate * _LOWEST**2)) ** -0.5
        return scale * (inputs * kept + _LOWEST * (1 - kept)) - scale * _LOWEST * rate

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "rate": self.rate}
