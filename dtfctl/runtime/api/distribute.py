"""`tf.distribute`."""

from __future__ import annotations

from dtfctl.runtime.train import cluster_resolver
