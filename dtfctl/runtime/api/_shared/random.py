"""Names that `tf` and `tf.random` have."""

from dtfctl.runtime.framework.graph_keys import get_seed, set_random_seed
from dtfctl.runtime.ops.random_ops import multinomial, truncated_normal
