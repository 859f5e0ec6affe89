"""Ops whose result may be far larger than what they are given: its size is looked at before anything is allocated.

Linux grants memory that there is not, and kills the process that uses it. So what is large is compared with the memory
that is free, and refused as TensorFlow's allocator refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, ResourceExhaustedError
from dtfctl.runtime.kernels.free_memory import free_bytes
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild
from dtfctl.runtime.kernels.result_sizes import ONLY_IF, SIZES, item_bytes_of

LOOKED_AT_BYTES = 64 << 20
"""What is smaller is given without a look at the free memory."""
MOST_UNSEEN = LOOKED_AT_BYTES // 16
"""Elements that take less than `LOOKED_AT_BYTES` whatever they are."""
_MOST_ELEMENTS = 2**63 - 1
# What functions of sizes raise for inputs that make no sense.
_NO_ANSWER = (TypeError, ValueError, IndexError, AttributeError, OverflowError, ZeroDivisionError)
_SHARE = 0.75
"""Share of the free memory that one result may take: there is always some that is only for its making."""


def admit(shape: Iterable[Any], item_bytes: int) -> None:
    """Refuse an array that cannot be.

    Raises:
        InvalidArgumentError: nothing can have so many elements.
        ResourceExhaustedError: there is not so much memory.
    """
    dims = [int(dim) for dim in shape]
    if any(dim < 0 for dim in dims):
        return  # the kernel says what is wrong
    count = math.prod(dims)
    if count > _MOST_ELEMENTS:
        # TensorFlow's words.
        text = ", ".join(map(str, dims))
        raise InvalidArgumentError(f"Encountered overflow when multiplying [{text}], result: -1")
    size = count * item_bytes
    if size >= LOOKED_AT_BYTES and size > free_bytes() * _SHARE:
        raise ResourceExhaustedError(
            f"OOM when allocating tensor with shape {dims}: it takes {size:,} bytes, more than are free"
        )


def admit_broadcast(*inputs: Any, item_bytes: int | None = None) -> None:
    """Refuse a result that arrays are broadcast to, where it is larger than each of them and cannot be.

    Kernels call it only where the sizes of their inputs multiply to more than `MOST_UNSEEN`: small ones pay nothing.

    Args:
        item_bytes: of the result; those of the largest input's items otherwise.

    Raises:
        ResourceExhaustedError, InvalidArgumentError: see `admit`.
    """
    if not all(isinstance(x, (np.ndarray, np.generic)) for x in inputs):
        return  # memory of another device
    try:
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
    except ValueError:
        return
    if math.prod(shape) > max(x.size for x in inputs):
        admit(shape, max(map(item_bytes_of, inputs)) if item_bytes is None else item_bytes)


def gathered(count: int, item_bytes: int) -> int:
    """Refuse to gather on where as much again as is held does not fit.

    Args:
        count: of what is held; 1 to begin with.
        item_bytes: what each takes.

    Returns:
        At which count to ask again.

    Raises:
        ResourceExhaustedError: see `admit`.
    """
    admit((count,), item_bytes)
    return max(2 * count, LOOKED_AT_BYTES // max(item_bytes, 1))


def result_bytes(build: KernelBuild, inputs: Sequence[Any]) -> float:
    """Count the bytes of a result, or of what takes more on the way to it, before it is made.

    Returns:
        0 for an op that never makes much of little; infinity where the inputs make no sense.
    """
    size = SIZES.get(build.node.op)
    if size is None:
        return 0
    try:
        shape, item_bytes = size(build, inputs)
        return math.prod(int(dim) for dim in shape) * item_bytes
    except _NO_ANSWER:
        return math.inf


def admitting(build: KernelBuild, kernel: Kernel, with_step: bool) -> Kernel:
    """Make a kernel look at how large its result will be, if its op is one that grows."""
    size = SIZES.get(build.node.op)
    if size is None:
        return kernel
    known, may_be_large = size, ONLY_IF.get(build.node.op)

    def look(inputs: Sequence[Any]) -> None:
        try:
            if may_be_large is not None and not may_be_large(*inputs):
                return
            shape, item_bytes = known(build, inputs)
            dims = [int(dim) for dim in shape]
        except _NO_ANSWER:
            return
        admit(dims, item_bytes)

    if with_step:

        def run_in_step(step: Any, *inputs: Any) -> Any:
            look(inputs)
            return kernel(step, *inputs)

        return run_in_step

    def run(*inputs: Any) -> Any:
        look(inputs)
        return kernel(*inputs)

    return run
