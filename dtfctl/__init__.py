"""dtfctl: a cluster launcher and job orchestrator with its own TensorFlow-style distributed runtime."""

import os

from dtfctl._version import VERSION as __version__

if "DTF_LAYERS" in os.environ:  # a Python of the user's own on a host, see later.py
    from dtfctl.later import install

    install()

__all__ = ["__version__"]
