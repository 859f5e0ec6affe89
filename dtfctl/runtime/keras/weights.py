"""Variables of layers, and what regularizers charge for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.variables import Variable


def default_initializer(name: str | None, dtype: Any) -> init_ops.Initializer:
    """Choose how a variable begins when it is not said: Glorot's uniform noise, zeros for integers.

    Raises:
        ValueError: there is no default for that type.
    """
    if dtype.is_floating:
        return init_ops.GlorotUniform()
    if dtype.is_integer or dtype.is_bool:
        return init_ops.Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype.name} is required")


def make_variable(
    charges: list[Callable[[], Any]],
    name: str | None,
    shape: TensorShape,
    dtype: Any,
    initializer: Any,
    regularizer: Any,
    trainable: bool,
    constraint: Any,
    use_resource: bool | None,
    collections: Any,
    caching_device: Any,
    synchronization: Any,
    aggregation: Any,
    partitioner: Any,
) -> Any:
    """Make a variable; what its regularizer charges, when it is asked, joins `charges`."""
    if partitioner is not None:
        raise NotImplementedError(
            "tf.keras layers have no partitioned variables; use tf.layers, or tf.get_variable with a partitioner"
        )
    initial: Any = initializer
    if isinstance(initializer, init_ops.Initializer) or callable(initializer):
        initial = functools.partial(initializer, shape.as_list(), dtype=dtype)
    variable: Any = Variable(
        initial_value=initial,
        name=name,
        trainable=trainable,
        dtype=dtype if callable(initial) else None,
        constraint=constraint,
        collections=collections,
        caching_device=caching_device,
        use_resource=True if use_resource is None else use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )
    if regularizer is not None:
        scope = f"{variable.op.name}/Regularizer"

        def charge() -> Any:
            with name_scope(scope):
                return regularizer(variable)

        charges.append(charge)
    return variable
