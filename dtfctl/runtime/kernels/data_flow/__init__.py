"""Kernels of the data_flow family."""

from dtfctl.runtime.kernels.data_flow import (  # noqa: F401
    accumulator,
    partition,
    queue_ops,
    stack,
    tensor_array_ops,
)
