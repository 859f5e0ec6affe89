"""`tf.load_op_library` and its kin: compiled libraries of TensorFlow ops, which have no place here."""

from __future__ import annotations

from typing import NoReturn


def _refuse(function: str, library: str) -> NoReturn:
    raise NotImplementedError(
        f"{function}({library!r}): a library compiled against TensorFlow cannot be loaded without TensorFlow. "
        "Write the op's signature and kernel in Python and install it as a plugin, as docs/custom-ops.md shows; the "
        "job's file may also call tf.register_op and tf.register_kernel itself"
    )


def load_op_library(library_filename: str) -> NoReturn:
    """Raises NotImplementedError, which says how ops of one's own are made here (docs/custom-ops.md)."""
    _refuse("load_op_library", library_filename)


def load_library(library_location: str) -> NoReturn:
    """Raises NotImplementedError; see `load_op_library`."""
    _refuse("load_library", library_location)


def load_file_system_library(library_filename: str) -> NoReturn:
    """Raises NotImplementedError; see `load_op_library`."""
    _refuse("load_file_system_library", library_filename)
