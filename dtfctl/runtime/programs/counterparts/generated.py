"""`tensorflow.python.ops.gen_math_ops` and its kin: each op as a function, with arguments by place or by name."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op_nested
from dtfctl.runtime.framework.op_signature import find_signature, op_names


def snake_case(op: str) -> str:
    """Write an op's type as its function's name: "MatMul" is "mat_mul", "Conv2DGrad" would be "conv2d_grad"."""
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", op)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?!D(?:[A-Z_]|$))(?=[A-Z])", "_", words).lower()


@functools.cache
def _types() -> dict[str, str]:
    return {snake_case(name): name for name in sorted(op_names(), reverse=True)}


def __getattr__(name: str) -> Callable[..., Any]:
    if find_signature(name) is not None:
        return functools.partial(_call, name)  # as `raw_ops` has it, by names
    op = _types().get(name.removeprefix("_"))
    if op is None:
        raise AttributeError(f"there is no op of the name {name!r}")
    return functools.partial(_call, op)


def _call(op: str, /, *values: Any, **named: Any) -> Any:
    """Make the op of a type; values without names are its inputs, its attributes in their order, and its name."""
    signature = find_signature(op)
    assert signature is not None
    inputs = [p.name for p in signature.inputs]
    plain = [a for a in signature.attrs if a.name not in signature.inferred_attrs]
    attrs = [a.name for a in sorted(plain, key=lambda a: a.default is not None)]
    places = [*inputs, *attrs, "name"]
    if len(values) > len(places):
        raise TypeError(f"{snake_case(op)}() takes {len(places)} arguments ({', '.join(places)}), got {len(values)}")
    made = apply_op_nested(op, **dict(zip(places, values, strict=False)), **named)
    return _result_type(op)(*made) if len(signature.outputs) > 1 else made


@functools.cache
def _result_type(op: str) -> Any:
    """Make the tuple of an op's outputs by their names, as `tensorflow.python.ops.gen_math_ops` returns them."""
    signature = find_signature(op)
    assert signature is not None
    return collections.namedtuple(op, [arg.name for arg in signature.outputs], rename=True)
