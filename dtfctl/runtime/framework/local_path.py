"""File names as TensorFlow's file systems read them: a path, or a URI with a scheme."""

from __future__ import annotations

import glob
import re

from dtfctl.runtime.framework.errors import UnimplementedError

_URI = re.compile(r"([A-Za-z][0-9A-Za-z.]*)://([^/]*)(.*)", re.DOTALL)


def as_matched(pattern: str, path: str) -> str:
    """Name what a pattern matched: in the folder at hand "./" stands before it, unless nothing was wild."""
    return f"./{path}" if glob.has_magic(pattern) and "/" not in pattern else path


def local_path(name: str) -> str:
    """Find the path of `name` on this machine: as it is, or what follows `file://` and a host.

    Raises:
        UnimplementedError: another scheme.
    """
    found = _URI.fullmatch(name)
    if found is None:
        return name
    scheme, _, path = found.groups()
    if scheme != "file":
        raise UnimplementedError(
            f"File system scheme '{scheme}' not implemented (file: '{name}'). Use a path or a file:// URI; other file "
            "systems have to be mounted."
        )
    return path
