"""safetensors files, the format of Hugging Face, PyTorch and JAX programs, read and written as checkpoints are.

Of what TensorFlow keeps in checkpoints they have no place for text. The description of objects that
`tf.train.Checkpoint` writes goes into the file's metadata, and comes back from there.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dtfctl.durable import open_temporary, sync_folder, temporary_of
from dtfctl.runtime.checkpoint.atomic import READABLE, os_error
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from dtfctl.runtime.framework.local_path import local_path

ENDING = ".safetensors"
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_OBJECTS_ENTRY = "tensorflow_object_graph"
_TYPES: dict[str, DType] = {
    "BOOL": dtypes.bool_,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "I32": dtypes.int32,
    "I64": dtypes.int64,
    "U8": dtypes.uint8,
    "U16": dtypes.uint16,
    "U32": dtypes.uint32,
    "U64": dtypes.uint64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
}


class TensorSource(Protocol):
    """Tensors by name: a checkpoint of TensorFlow's, or a safetensors file."""

    def names(self) -> list[str]: ...

    def dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]: ...

    def read(self, name: str) -> Any: ...


class SafetensorsReader:
    """An open safetensors file, which is mapped and not read.

    Raises (all methods):
        NotFoundError: no such file, or no such tensor in it.
        DataLossError: it is no safetensors file, or a damaged one.
        UnimplementedError: a tensor's type has none in TensorFlow.
        FailedPreconditionError: the package `safetensors` is not installed.
    """

    def __init__(self, path: str) -> None:
        library = _library()
        self._path = path
        try:
            self._file = library.safe_open(path, "np")
        except OSError as e:
            # The library's own say neither which file nor which error.
            raise os_error(e if e.errno else _why(path, e), path) from e
        except library.SafetensorError as e:
            raise DataLossError(f"{path} is no whole safetensors file: {e}") from e
        self._objects = (self._file.metadata() or {}).get(_OBJECTS_ENTRY)
        self._names = sorted([*self._file.keys(), *([OBJECTS] if self._objects is not None else [])])

    def names(self) -> list[str]:
        """Return the tensors' names, sorted."""
        return self._names

    def dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]:
        self._check(name)
        if name == OBJECTS:
            return dtypes.string, ()
        found = self._file.get_slice(name)
        kind = found.get_dtype()
        if kind not in _TYPES:
            raise UnimplementedError(
                f"{self._path}: '{name}' is {kind}, for which TensorFlow's checkpoints have no type"
            )
        return _TYPES[kind], tuple(found.get_shape())

    def read(self, name: str) -> Any:
        """Read one tensor into an array."""
        self.dtype_and_shape(name)
        if name == OBJECTS:
            return np.array(base64.b64decode(self._objects or ""), object)
        return self._file.get_tensor(name)

    def _check(self, name: str) -> None:
        if name not in self._names:
            raise NotFoundError(f"{self._path} has no tensor '{name}'")


def write_safetensors(path: str, source: TensorSource, names: Iterable[str]) -> None:
    """Write tensors of a source into a new file, which appears whole or not at all; they are in memory until it is.

    Raises:
        InvalidArgumentError: a tensor's type has no place in such files; the message names them all.
        FailedPreconditionError: the package `safetensors` is not installed.
    """
    library = _library()
    wanted = [name for name in names if name != OBJECTS]
    kinds = {name: source.dtype_and_shape(name)[0] for name in wanted}
    strangers = [f"'{name}' ({kind.name})" for name, kind in kinds.items() if kind not in _TYPES.values()]
    if strangers:
        more = f" and {len(strangers) - 5} more" if len(strangers) > 5 else ""
        raise InvalidArgumentError(
            f"safetensors files have no place for {', '.join(strangers[:5])}{more}: leave them out (--without NAME)"
        )
    metadata = {"format": "np"}
    if OBJECTS in set(names):
        metadata[_OBJECTS_ENTRY] = base64.b64encode(np.asarray(source.read(OBJECTS)).item()).decode()
    # The library takes the memory of arrays as it lies.
    tensors = {
        name: np.ascontiguousarray(source.read(name)).reshape(source.dtype_and_shape(name)[1]) for name in wanted
    }
    try:
        _write(library, Path(local_path(path)), tensors, metadata)
    except OSError as e:
        raise os_error(e, path) from e


def _write(library: _Library, path: Path, tensors: dict[str, Any], metadata: dict[str, str]) -> None:
    temporary = temporary_of(path)
    fd = open_temporary(temporary, READABLE)
    try:
        # The library puts a file of its own in the place of this one, which only its owner may read.
        library.save_file(tensors, os.fspath(temporary), metadata)
        with open(temporary, "rb") as file:
            os.fchmod(file.fileno(), os.fstat(fd).st_mode & 0o777)
            os.fsync(file.fileno())
        temporary.replace(path)
    except library.SafetensorError as e:
        raise os_error(_why(os.fspath(path.parent), OSError(str(e))), os.fspath(path)) from e
    finally:
        os.close(fd)
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


class _Library:
    def __init__(self) -> None:
        import safetensors
        import safetensors.numpy

        self.safe_open: Any = safetensors.safe_open
        self.SafetensorError: Any = safetensors.SafetensorError
        self.save_file: Any = safetensors.numpy.save_file


def _library() -> _Library:
    try:
        return _Library()
    except ImportError as e:
        raise FailedPreconditionError(
            "safetensors files need the package `safetensors`: pip install 'dtfctl[safetensors]'"
        ) from e


def _why(path: str, error: OSError) -> OSError:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as e:
        return e
    return error
