"""Exceptions of kernels become located OpErrors."""

from __future__ import annotations

import traceback

import numpy as np

from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError, OpError, ResourceExhaustedError

# What numpy raises for arguments that do not fit together.
_ARGUMENT_ERRORS = (ValueError, IndexError, OverflowError, np.exceptions.AxisError)

_WRONG_RANKS = ("only 0-dimensional arrays", "len() of unsized object", "iteration over a 0-d array")


def located(error: BaseException, node: str) -> OpError:
    """Make of any error an OpError that names the node it came from."""
    if isinstance(error, OpError):
        return error.at(node)
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(f"OOM when allocating tensor: {error}", node)
    if isinstance(error, RecursionError):
        return ResourceExhaustedError(f"Too much recursion: {error}", node)
    if isinstance(error, _ARGUMENT_ERRORS) or _of_wrong_rank(error):
        return InvalidArgumentError(str(error), node)
    return InternalError(f"{type(error).__name__}: {error}", node)


def _of_wrong_rank(error: BaseException) -> bool:
    """Tell whether numpy was asked for the number in an array of several, or for the items of one that is a number."""
    return isinstance(error, TypeError) and str(error).startswith(_WRONG_RANKS)


def release_values(error: BaseException) -> None:
    """Let go of the tensors of a failed step, which the frames in the error's traceback would keep alive."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        traceback.clear_frames(following.__traceback__)
        following = following.__cause__ or following.__context__
