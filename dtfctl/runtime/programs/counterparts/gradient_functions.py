"""`tensorflow.python.ops.nn_grad` and its kin: the function that makes the gradients of an op type.

`_MatMulGrad(op, grad)` is what is registered for MatMul.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.op_signature import find_signature
from dtfctl.runtime.framework.registries import find_gradient


def __getattr__(name: str) -> Callable[..., Any]:
    op_type = re.fullmatch(r"_(\w+)Grad", name)
    found = find_gradient(op_type[1]) if op_type and find_signature(op_type[1]) is not None else None
    if found is None:
        raise AttributeError(f"there is no gradient of the name {name!r}")
    return found
