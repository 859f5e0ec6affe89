"""What a layer is called with: tensors, and the phase of training, that of the layer around it if it is not said."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import state
from dtfctl.runtime.ops import math_ops


@functools.cache
def call_arguments(call: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Name the arguments that a layer's `call` takes, and whether it takes any."""
    parameters = inspect.signature(call).parameters
    return frozenset(parameters), any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def argument_names(call: Callable[..., Any]) -> list[str]:
    """Name the arguments of a layer's `call`, in their order."""
    return list(inspect.signature(call).parameters)


def as_tensor(value: Any) -> Any:
    """Convert an input; sparse tensors stay."""
    if isinstance(value, (Tensor, SparseTensor)):
        return value
    return convert_to_tensor(value)


def settle_training(kwargs: dict[str, Any], takes_training: bool, takes_any: bool, positional: bool) -> Any:
    """Find the phase that a layer is called with, and set it in `kwargs` if `call` takes it.

    Args:
        positional: whether there are arguments beside the inputs that have no names, so that it may be among them.
    """
    training = kwargs.get("training")
    if "training" in kwargs and not takes_training and not takes_any:
        kwargs.pop("training")
    if training is None and not (positional and takes_training):
        callers = state.callers()
        if callers and callers[-1][1] is not None:
            training = callers[-1][1]
        elif isinstance(state.graph_state().phase, int):
            training = state.graph_state().phase
        if training is not None and takes_training:
            known = isinstance(training, (bool, int, np.bool_))
            kwargs["training"] = bool(training) if known else math_ops.cast(training, dtypes.bool_)
    return training
