"""`tensorflow.python.lib.io.file_io`: files by path, under the names that programs had for them before `tf.gfile`."""

from __future__ import annotations

import os
from typing import Any

from dtfctl.runtime.platform.gfile import (
    Copy as copy,
    DeleteRecursively as delete_recursively,
    Exists as file_exists,
    GFile as FileIO,
    Glob as get_matching_files,
    IsDirectory as is_directory,
    ListDirectory as list_directory,
    MakeDirs as recursive_create_dir,
    MkDir as create_dir,
    Remove as delete_file,
    Rename as rename,
    Stat as stat,
    Walk as walk,
)

__all__ = [
    "FileIO",
    "atomic_write_string_to_file",
    "copy",
    "create_dir",
    "delete_file",
    "delete_recursively",
    "file_exists",
    "get_matching_files",
    "is_directory",
    "list_directory",
    "read_file_to_string",
    "recursive_create_dir",
    "rename",
    "stat",
    "walk",
    "write_string_to_file",
]


def read_file_to_string(filename: Any, binary_mode: bool = False) -> Any:
    """Read a whole file, as bytes where binary_mode says so.

    Raises:
        NotFoundError: there is none.
    """
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename: Any, file_content: Any) -> None:
    """Write text or bytes as a file, in the place of what was there."""
    with FileIO(filename, "wb" if isinstance(file_content, bytes) else "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename: Any, contents: Any, overwrite: bool = True) -> None:
    """Write a file so that others see all of it or nothing.

    Raises:
        AlreadyExistsError: it is there, and overwrite is False.
    """
    beside = f"{os.fspath(filename)}.tmp{os.getpid()}"
    write_string_to_file(beside, contents)
    try:
        rename(beside, filename, overwrite)
    except BaseException:
        delete_file(beside)
        raise
