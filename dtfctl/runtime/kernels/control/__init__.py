"""Kernels of signatures/control.opdef, imported for their registrations."""

from dtfctl.runtime.kernels.control import flow as flow
