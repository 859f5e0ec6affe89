"""`tensorflow.python.ops.parallel_for.control_flow_ops`: loops whose iterations do not depend on each other."""

from dtfctl.runtime.ops.parallel_for import for_loop, pfor, vectorized_map

__all__ = ["for_loop", "pfor", "vectorized_map"]
