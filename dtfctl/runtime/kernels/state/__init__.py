"""Kernels of the state family: importing this package registers them."""

from dtfctl.runtime.kernels.state import mutex, resource_variables, scatter, variables

__all__ = ["mutex", "resource_variables", "scatter", "variables"]
