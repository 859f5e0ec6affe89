"""Names that `tf` and `tf.sparse` have."""

from dtfctl.runtime.framework.convert import SparseTensor
from dtfctl.runtime.ops.data_flow_ops.accumulators import SparseConditionalAccumulator
