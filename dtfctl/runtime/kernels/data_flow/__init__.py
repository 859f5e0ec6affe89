"""Kernels of the data_flow family."""

from dtfctl.runtime.kernels.data_flow import partition, stack, tensor_array_ops  # noqa: F401
