"""Kernels of signatures/control.opdef, imported for their registrations."""

from dtfctl.runtime.kernels.control import (
    batching as batching,
    flow as flow,
    functional as functional,
    py_func as py_func,
    tensor_list_ops as tensor_list_ops,
    tensor_list_stacking as tensor_list_stacking,
    tensor_map as tensor_map,
)
