"""Static shapes of ops whose result has the shape of an input, and of those that say their shape in an attribute."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape


@register_shape("Bitcast")
def _bitcast(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    have, want = op.inputs[0].dtype.size, dtypes.as_dtype(op.outputs[0].dtype).size
    if dims is None:
        return [TensorShape(None)]
    if have == want:
        return [dims]
    return [[*dims, have // want] if have > want else dims[:-1]]


@register_shape("Fingerprint")
def _fingerprint(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [[None if dims is None else dims[0], 8]]
