"""Tensors that stay in the session between steps."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.ops.array_ops import placeholder


def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> Any:
    """Make a placeholder for the handle of a kept tensor, and that tensor."""
    holder = placeholder(dtypes.string)
    return holder, apply_op("GetSessionTensor", name, handle=holder, dtype=dtype)


def delete_session_tensor(handle: Any, name: str | None = None) -> Any:
    """Make a placeholder for the handle of a kept tensor, and the op that forgets that tensor."""
    holder = placeholder(dtypes.string)
    return holder, make_op("DeleteSessionTensor", name, handle=holder)
