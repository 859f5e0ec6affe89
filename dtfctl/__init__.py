"""dtfctl: a cluster launcher and job orchestrator with its own TensorFlow-style distributed runtime."""

from dtfctl._version import VERSION as __version__

__all__ = ["__version__"]
