"""`tf.version`: this package's version, and that of the graphs it writes and reads."""

from __future__ import annotations

import platform

from dtfctl._version import VERSION
from dtfctl.runtime.framework.node_graph import GRAPH_DEF_VERSION

GIT_VERSION = f"v{VERSION}"
COMPILER_VERSION = platform.python_compiler()
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
