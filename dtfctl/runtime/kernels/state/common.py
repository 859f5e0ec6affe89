"""What state and training kernels share: finding a handle's variable, TensorFlow's way to write a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.variable import Variable

# The shared_name that asks VarHandleOp for a variable of its own at every run (TensorFlow's ResourceHandle).
ANONYMOUS_NAME = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape as TensorFlow's error texts do: [2,3]."""
    return "[" + ",".join(map(str, shape)) + "]"


def check_has_rows(shape: tuple[int, ...]) -> None:
    """Check that a variable has rows to update.

    Raises:
        InvalidArgumentError: it is a scalar.
    """
    if not shape:
        raise InvalidArgumentError(f"params must be at least 1-D, got shape {shape_text(shape)}")


def wrong_updates(updates: Any, indices: Any, shape: tuple[int, ...]) -> InvalidArgumentError:
    """Say that updates are none of the rows that indices name, of a variable of that shape."""
    return InvalidArgumentError(
        "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
        f"updates.shape {shape_text(updates.shape)}, indices.shape {shape_text(indices.shape)}, "
        f"params.shape {shape_text(shape)}"
    )


def handle_of(value: Any) -> ResourceHandle:
    """Take the handle out of a resource tensor."""
    handle = value.reshape(-1)[0] if getattr(value, "size", 0) == 1 else None
    if not isinstance(handle, ResourceHandle):
        raise InvalidArgumentError(f"Expected a scalar resource handle, got {value!r}")
    return handle


def check_device(k: KernelBuild, handle: ResourceHandle) -> None:
    if handle.device and handle.device != k.device.name:
        raise InvalidArgumentError(
            f"Trying to access resource {handle.name} located in device {handle.device} from device {k.device.name}"
        )


def variable_finder(k: KernelBuild) -> Callable[[Any], Variable]:
    """Make a function from a resource tensor to its variable; it raises NotFoundError when there is none."""
    resources: ResourceManager = k.resources

    # (removals before it was looked up, the tensor that held the handle, the variable)
    known: tuple[int, Any, Variable | None] = (-1, None, None)

    def find(value: Any) -> Variable:
        nonlocal known
        removals, held, variable = known
        if held is value and variable is not None and removals == resources.removals:
            return variable
        removals = resources.removals
        handle = handle_of(value)
        check_device(k, handle)
        variable = resources.lookup(handle.container, handle.name, Variable)
        known = removals, value, variable
        return variable

    return find
