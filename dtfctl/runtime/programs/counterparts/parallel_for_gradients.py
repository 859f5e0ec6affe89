"""`tensorflow.python.ops.parallel_for.gradients`: Jacobians."""

from dtfctl.runtime.ops.parallel_for import batch_jacobian, jacobian

__all__ = ["batch_jacobian", "jacobian"]
