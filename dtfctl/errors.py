"""The root of the one exception tree.

DtfctlError
├── LauncherError      (dtfctl/launcher/errors.py) a command cannot be done; carries the exit code
└── OpError            (dtfctl/runtime/framework/errors.py) TensorFlow's error classes, one for each code
"""

from __future__ import annotations


class DtfctlError(Exception):
    """Base of every error this package raises on purpose."""
