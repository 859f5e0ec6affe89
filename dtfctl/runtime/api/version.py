"""`tf.version`: the version of TensorFlow whose programs run here, ours, and that of the graphs written and read."""

from __future__ import annotations

import platform

from dtfctl import _version
from dtfctl.runtime.framework.node_graph import GRAPH_DEF_VERSION

# The last of TensorFlow 1: programs ask whether it is at least theirs.
VERSION = "1.15.0"
GIT_VERSION = f"dtfctl-{_version.VERSION}"
COMPILER_VERSION = platform.python_compiler()
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
