"""Kernels of the data_flow family."""

from dtfctl.runtime.kernels.data_flow import (  # noqa: F401
    accumulator,
    barrier,
    partition,
    queue_ops,
    record_input,
    remap,
    session_tensor,
    stack,
    staging,
    table_ops,
    tensor_array_ops,
)
