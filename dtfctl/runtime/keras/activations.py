"""`tf.keras.activations`: functions of a tensor, found by name."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import registry
from dtfctl.runtime.ops import clip_ops, math_ops, nn_ops


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Compute exp(x) / sum(exp(x)) along an axis."""
    out: Tensor = nn_ops.softmax(x, axis=axis)
    # Losses work on the logits, for precision.
    out._keras_logits = x  # type: ignore[attr-defined]
    return out


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Compute x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    out: Tensor = nn_ops.elu(x)
    if alpha == 1:
        return out
    from dtfctl.runtime.ops import array_ops

    return array_ops.where_v2(x > 0, out, alpha * out)


def selu(x: Any) -> Tensor:
    """Compute the scaled exponential linear unit."""
    return nn_ops.selu(x)


def softplus(x: Any) -> Tensor:
    """Compute log(exp(x) + 1)."""
    return nn_ops.softplus(x)


def softsign(x: Any) -> Tensor:
    """Compute x / (abs(x) + 1)."""
    return nn_ops.softsign(x)


def swish(x: Any) -> Tensor:
    """Compute x * sigmoid(x)."""
    return nn_ops.swish(x)


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0) -> Tensor:
    """Compute max(x, 0), with a slope below the threshold and a ceiling if they are given."""
    x = convert_to_tensor(x)
    negative = None
    if alpha != 0.0:
        if max_value is None and threshold == 0:
            return nn_ops.leaky_relu(x, alpha=alpha)
        negative = nn_ops.relu(-x + threshold) if threshold != 0 else nn_ops.relu(-x)
    clip = max_value is not None
    if threshold != 0:
        x = x * math_ops.cast(math_ops.greater(x, threshold), x.dtype)
    elif max_value == 6:
        x, clip = nn_ops.relu6(x), False
    else:
        x = nn_ops.relu(x)
    if clip:
        x = clip_ops.clip_by_value(x, 0.0, max_value)
    out: Tensor = x - alpha * negative if negative is not None else x
    return out


def tanh(x: Any) -> Tensor:
    """Compute the hyperbolic tangent."""
    return math_ops.tanh(x)


def sigmoid(x: Any) -> Tensor:
    """Compute 1 / (1 + exp(-x))."""
    out: Tensor = math_ops.sigmoid(x)
    out._keras_logits = x  # type: ignore[attr-defined]
    return out


def exponential(x: Any) -> Tensor:
    """Compute exp(x)."""
    return math_ops.exp(x)


def hard_sigmoid(x: Any) -> Tensor:
    """Compute 0.2 * x + 0.5, cut to [0, 1]."""
    out: Tensor = clip_ops.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)
    return out


def linear(x: Any) -> Any:
    """Pass x on."""
    return x


_OBJECTS: dict[str, Any] = {
    f.__name__: f
    for f in (softmax, elu, selu, softplus, softsign, swish, relu, tanh, sigmoid, exponential, hard_sigmoid, linear)
}
_OBJECTS["leaky_relu"] = nn_ops.leaky_relu


def get(identifier: Any) -> Any:
    """Find an activation by name; None is `linear`, a function is itself."""
    if identifier is None:
        return linear
    if isinstance(identifier, (str, dict)):
        return deserialize(identifier)
    if callable(identifier):
        return identifier
    raise TypeError(f"Could not interpret activation function identifier: {identifier!r}")


def serialize(activation: Any) -> Any:
    """Return the name of an activation, or its configuration."""
    return registry.serialize_keras_object(activation)


def deserialize(name: Any, custom_objects: Any = None) -> Any:
    """Find an activation by what `serialize` gave."""
    return registry.deserialize_keras_object(name, _OBJECTS, custom_objects, "activation function")
