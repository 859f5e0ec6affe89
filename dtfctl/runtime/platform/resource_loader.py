"""`tf.resource_loader`: files beside the module that asks."""

from __future__ import annotations

import os
import sys


def _folder() -> str:
    """Return the folder of the module that calls this one."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return os.path.dirname(os.path.abspath(str(frame.f_globals.get("__file__", ""))))


def get_data_files_path() -> str:
    """Return the folder of the module that asks."""
    return _folder()


def get_path_to_datafile(path: str) -> str:
    """Return the path of a file beside the module that asks."""
    return os.path.join(_folder(), path)


def get_root_dir_with_all_resources() -> str:
    """Return the folder that holds what a program was packed with: that of the module that asks."""
    return _folder()


def load_resource(path: str) -> bytes:
    """Read a file beside the module that asks.

    Raises:
        OSError: it cannot be read.
    """
    with open(os.path.join(_folder(), path), "rb") as file:
        return file.read()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return the path as it is."""
    return path
