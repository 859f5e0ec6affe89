"""A layer as one file: what hosts unpack, with its bytecode, and the same bytes for the same content.

A zlib stream of: the length of a JSON header (8 bytes, big-endian), the header (`[[path, size], ...]`), then the files'
bytes one after the other. Unpacking it takes a tenth of what a zip or a tar of thousands of small files does, and it is
Python's startup that it competes with. `host_unpack.py` reads it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dtfctl.durable import remove_left, whole_file

LEVEL = 1
"""Level 6 takes four times as long for a tenth less."""
MAGIC_SIZE = len(importlib.util.MAGIC_NUMBER)
HEADER_SIZE = 16
UNCHECKED = (1).to_bytes(4, "little")
"""Flags of bytecode that goes by its source's hash, which is not looked at again: layers do not change."""
NOT_NEEDED = (".pyi", ".pyx", ".pxd", ".a", ".c", ".pyc", ".pyo")


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed layer."""

    path: Path
    sha256: str
    size: int
    unpacked: int


def is_needed(name: str) -> bool:
    """Tell whether a file of a package is of use on hosts: tests of packages and what compilers read are not."""
    parts = name.split("/")
    return not name.startswith(("..", "/")) and "tests" not in parts and not name.endswith(NOT_NEEDED)


def pack(path: Path, entries: Iterable[tuple[str, Path | bytes]], *, compiled: bool) -> None:
    """Write the archive of `entries` (name to content), whole or not at all.

    Args:
        compiled: with bytecode of this Python's version.
    """
    files = list(_with_bytecode(entries) if compiled else entries)
    sizes = [[name, len(content) if isinstance(content, bytes) else content.stat().st_size] for name, content in files]
    head = json.dumps(sizes, separators=(",", ":")).encode()
    remove_left(path.parent)
    with whole_file(path) as file:
        squeeze = zlib.compressobj(LEVEL)
        file.write(squeeze.compress(len(head).to_bytes(8, "big") + head))
        for (name, content), (_, size) in zip(files, sizes, strict=True):
            data = content if isinstance(content, bytes) else content.read_bytes()
            if len(data) != size:
                raise OSError(f"{name} changed while it was read")
            file.write(squeeze.compress(data))
        file.write(squeeze.flush())


def described(path: Path) -> Archive:
    """Describe an archive as who gets it has to be told."""
    digest, unpacked, size = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        unpack, head = zlib.decompressobj(), b""
        while block := file.read(1 << 20):
            digest.update(block)
            if not unpacked:
                head += unpack.decompress(block)
                length = int.from_bytes(head[:8], "big")
                if len(head) >= 8 + length:
                    unpacked = sum(item[1] for item in json.loads(head[8 : 8 + length]))
    return Archive(path, digest.hexdigest(), size, unpacked)


def _with_bytecode(entries: Iterable[tuple[str, Path | bytes]]) -> Iterator[tuple[str, Path | bytes]]:
    tag = sys.implementation.cache_tag
    for name, content in entries:
        yield name, content
        if not name.endswith(".py"):
            continue
        source = content if isinstance(content, bytes) else content.read_bytes()
        code = _existing(content, source) if isinstance(content, Path) else b""
        if not code:
            try:
                code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
            except (SyntaxError, ValueError):
                continue  # of another Python's, or an example of what is wrong: importing it says so
        folder, _, module = name.rpartition("/")
        to = f"{folder}/__pycache__/{module[:-3]}.{tag}.pyc".lstrip("/")
        yield to, importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(source) + code


def _existing(path: Path, source: bytes) -> bytes:
    """Read the bytecode that lies beside a source and is of it; empty where there is none."""
    try:
        data = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        stat = path.stat()
    except OSError:
        return b""
    if data[:MAGIC_SIZE] != importlib.util.MAGIC_NUMBER:
        return b""
    if data[4:8] == b"\0\0\0\0":
        stamp = (int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF)
        known = (int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little"))
        return data[HEADER_SIZE:] if stamp == known else b""
    return data[HEADER_SIZE:] if data[8:16] == importlib.util.source_hash(source) else b""
