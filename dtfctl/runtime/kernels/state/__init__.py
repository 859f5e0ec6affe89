"""Kernels of the state family: importing this package registers them."""

from dtfctl.runtime.kernels.state import gpu_scatter, mutex, resource_variables, scatter, variables

__all__ = ["gpu_scatter", "mutex", "resource_variables", "scatter", "variables"]
