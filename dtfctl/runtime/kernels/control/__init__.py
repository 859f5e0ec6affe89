"""Kernels of signatures/control.opdef, imported for their registrations."""

from dtfctl.runtime.kernels.control import flow as flow
from dtfctl.runtime.kernels.control import functional as functional
from dtfctl.runtime.kernels.control import py_func as py_func
from dtfctl.runtime.kernels.control import tensor_list_ops as tensor_list_ops
from dtfctl.runtime.kernels.control import tensor_map as tensor_map
