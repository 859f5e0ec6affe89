"""Variables of layers: their losses are those of the scope and those of the layer."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.ops.shared_variables import Regularizers
from dtfctl.runtime.ops.variable_scope import get_variable, get_variable_scope


def layer_variable(
    name: str,
    shape: Any,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    **options: Any,
) -> Any:
    """Get a variable of a layer; a regularizer of its own comes after that of the scope, not in its place."""
    of_scope = get_variable_scope().regularizer
    if regularizer is not None and of_scope is not None:
        regularizer = Regularizers((of_scope, regularizer))
    return get_variable(name, shape, dtype, initializer, regularizer, trainable, **options)
