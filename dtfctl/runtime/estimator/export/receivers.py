"""What signatures take: features, fed as they are or parsed from examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dtfctl.runtime import api as tf


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


class ServingInputReceiver(_Receiver):
    """Features of a model, and the tensors that are fed to get them.

    Args:
        features: tensors by name, or one.
        receiver_tensors: tensors by name, or one.
        receiver_tensors_alternatives: other tensors that may be fed instead, by the name of the way.
    """

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        features = features if isinstance(features, Mapping) else {"feature": features}
        return super().__new__(
            cls, _checked(features, "feature"), _named(receiver_tensors), receiver_tensors_alternatives
        )


class TensorServingInputReceiver(_Receiver):
    """One feature that the model takes as a tensor, not in a dict; arguments as above."""

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> TensorServingInputReceiver:
        _checked({"feature": features}, "feature")
        return super().__new__(cls, features, _named(receiver_tensors), receiver_tensors_alternatives)


def _named(tensors: Any) -> Any:
    tensors = tensors if isinstance(tensors, Mapping) else {"receiver_tensor": tensors}
    return _checked(tensors, "receiver_tensor")


def _checked(tensors: Mapping[str, Any], what: str) -> dict[str, Any]:
    for key, value in tensors.items():
        if not isinstance(key, str):
            raise ValueError(f"{what} keys must be strings: {key}.")
        if not (tf.is_tensor(value) or isinstance(value, tf.SparseTensor)):
            raise ValueError(f"{what} {key} must be a Tensor or SparseTensor.")
    return dict(tensors)


def build_parsing_serving_input_receiver_fn(
    feature_spec: dict[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Make a function of a receiver that parses serialized examples.

    Args:
        feature_spec: as `tf.parse_example` takes it.
        default_batch_size: the batch's size where it is fixed.
    """

    def receiver() -> ServingInputReceiver:
        examples = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        features = tf.parse_example(examples, feature_spec)
        return ServingInputReceiver(features, {"examples": examples})

    return receiver


def build_raw_serving_input_receiver_fn(
    features: dict[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Make a function of a receiver of features as they are.

    Args:
        features: tensors by name, whose types and shapes are taken; the first dimension is the batch's.
    """

    def receiver() -> ServingInputReceiver:
        made = {}
        for name, tensor in features.items():
            shape = tensor.shape.as_list()
            shape[0] = default_batch_size
            made[name] = tf.placeholder(tensor.dtype, shape, name=tensor.op.name)
        return ServingInputReceiver(made, made)

    return receiver
