"""`tensorflow.python.framework.random_seed`: seeds of graphs and of ops."""

from __future__ import annotations

from dtfctl.runtime.framework.graph_keys import DEFAULT_GRAPH_SEED, get_seed, set_random_seed

__all__ = ["DEFAULT_GRAPH_SEED", "get_seed", "set_random_seed", "set_seed"]

set_seed = set_random_seed
