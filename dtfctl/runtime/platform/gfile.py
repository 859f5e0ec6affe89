"""`tf.gfile`: files by path. Only local paths exist here; a scheme such as gs:// is refused by name."""

from __future__ import annotations

import glob as _glob
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dtfctl.runtime.framework.errors import AlreadyExistsError, NotFoundError
from dtfctl.runtime.framework.local_path import as_matched, local_path


def _local(path: Any) -> str:
    text = os.fspath(path)
    text = text.decode() if isinstance(text, bytes) else text
    return local_path(text)


class GFile:
    """A file, opened when first used; a context manager and an iterator of lines."""

    def __init__(self, name: Any, mode: str = "r") -> None:
        self._name, self._mode = _local(name), mode
        self._file: Any = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def mode(self) -> str:
        return self._mode

    @property
    def _is_binary(self) -> bool:
        return "b" in self._mode

    def _open(self) -> Any:
        if self._file is None:
            try:
                # Text is UTF-8 with the line ends that it has, whatever this machine's habits.
                text: dict[str, str] = {} if self._is_binary else {"encoding": "utf-8", "newline": "\n"}
                if text and self._mode != "r":
                    text["errors"] = "surrogateescape"  # so that bytes that are no text are written as they are
                self._file = open(self._name, self._mode, **text)  # type: ignore[call-overload]  # noqa: SIM115
            except FileNotFoundError as e:
                raise NotFoundError(f"{self._name}; No such file or directory") from e
        return self._file

    def read(self, n: int = -1) -> Any:
        return self._open().read(n)

    def write(self, file_content: Any) -> None:
        """Write text or bytes, whatever the mode."""
        if self._is_binary and isinstance(file_content, str):
            file_content = file_content.encode()
        elif not self._is_binary and isinstance(file_content, bytes):
            file_content = file_content.decode(errors="surrogateescape")
        self._open().write(file_content)

    def readline(self) -> Any:
        return self._open().readline()

    def readlines(self) -> list[Any]:
        return list(self._open().readlines())

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        at = offset if position is None else position
        if at is None:
            raise TypeError("seek(): offset argument required")
        self._open().seek(at, whence)

    def tell(self) -> int:
        return int(self._open().tell())

    def size(self) -> int:
        return Path(self._name).stat().st_size

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._open())

    def __enter__(self) -> GFile:
        self._open()
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()


Open = FastGFile = GFile


def Exists(filename: Any) -> bool:
    return os.path.exists(_local(filename))


def IsDirectory(dirname: Any) -> bool:
    return os.path.isdir(_local(dirname))


def MakeDirs(dirname: Any) -> None:
    os.makedirs(_local(dirname), exist_ok=True)


def MkDir(dirname: Any) -> None:
    try:
        os.mkdir(_local(dirname))
    except FileExistsError as e:
        raise AlreadyExistsError(f"{dirname} already exists") from e
    except FileNotFoundError as e:
        raise NotFoundError(f"{dirname}: its parent does not exist") from e


def ListDirectory(dirname: Any) -> list[str]:
    try:
        return sorted(os.listdir(_local(dirname)))
    except FileNotFoundError as e:
        raise NotFoundError(f"Could not find directory {dirname}") from e


def Glob(filename: Any) -> list[str]:
    patterns = filename if isinstance(filename, (list, tuple)) else [filename]
    return [as_matched(p, f) for p in map(_local, patterns) for f in sorted(_glob.glob(p))]


def Remove(filename: Any) -> None:
    try:
        os.remove(_local(filename))
    except FileNotFoundError as e:
        raise NotFoundError(f"{filename}; No such file or directory") from e


def DeleteRecursively(dirname: Any) -> None:
    path = _local(dirname)
    if not os.path.exists(path):
        raise NotFoundError(f"{dirname}; No such file or directory")
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    if not overwrite and os.path.exists(_local(newpath)):
        raise AlreadyExistsError(f"{newpath} already exists")
    try:
        shutil.copyfile(_local(oldpath), _local(newpath))
    except FileNotFoundError as e:
        raise NotFoundError(f"{oldpath}; No such file or directory") from e


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    if not overwrite and os.path.exists(_local(newname)):
        raise AlreadyExistsError(f"{newname} already exists")
    try:
        os.replace(_local(oldname), _local(newname))
    except FileNotFoundError as e:
        raise NotFoundError(f"{oldname}; No such file or directory") from e


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    return os.walk(_local(top), topdown=in_order)


def Stat(filename: Any) -> os.stat_result:
    return os.stat(_local(filename))


# TF2's names of them, with its names of arguments.


def exists(path: Any) -> bool:
    return Exists(path)


def isdir(path: Any) -> bool:
    return IsDirectory(path)


def makedirs(path: Any) -> None:
    MakeDirs(path)


def mkdir(path: Any) -> None:
    MkDir(path)


def listdir(path: Any) -> list[str]:
    return ListDirectory(path)


def glob(pattern: Any) -> list[str]:
    return Glob(pattern)


def remove(path: Any) -> None:
    Remove(path)


def rmtree(path: Any) -> None:
    DeleteRecursively(path)


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    Copy(src, dst, overwrite)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    Rename(src, dst, overwrite)


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[OSError], Any] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    return os.walk(_local(top), topdown=topdown, onerror=onerror)


def stat(path: Any) -> os.stat_result:
    return Stat(path)
