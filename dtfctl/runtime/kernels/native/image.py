"""Object code as an image: bytes that run wherever they lie, so that who runs them needs no linker and no LLVM.

LLVM's object files of x86-64 have code and constants in sections of their own, and places in the code that say how far
away a constant or a function is. Here the sections get their places one after the other, and those distances are
filled in. Nothing outside of an image is referred to but functions of the C library, where that is allowed: of each of
them there is a jump, to the address that who runs the image puts behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_ALLOCATED, _NO_BYTES, _SYMBOLS, _RELOCATIONS = 0x2, 8, 2, 4
# Distances of 32 bits from a place to a symbol; of a function, or of anything.
_PC32, _PLT32 = 2, 4
# A jump to the address that follows it, and what the name of an entry begins with that is the place of that address.
_JUMP = b"\xff\x25\x00\x00\x00\x00"
OUTSIDE = "@"


@dataclass(frozen=True)
class Image:
    """Attributes: code: the bytes; entries: where functions that others call begin, and addresses of others' go."""

    code: bytes
    entries: Mapping[str, int]

    def __hash__(self) -> int:
        return hash(self.code)


@dataclass
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    name: str = ""
    at: int = -1


def image_of(data: bytes, outside: Collection[str] = ()) -> Image:
    """Make an object file an image.

    Args:
        outside: functions that it may call though it does not have them.

    Raises:
        RuntimeError: it is of another kind, or refers to what it does not have.
    """
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != 62:
        raise RuntimeError("object code of this processor is not known here")
    sections = _sections(data)
    out = bytearray()
    for section in sections:
        if section.flags & _ALLOCATED and section.size and not section.name.startswith(".eh_frame"):
            if section.kind == _NO_BYTES:
                raise RuntimeError(f"compiled code wants memory of its own: {section.name}")
            out += bytes(-len(out) % max(section.align, 1))
            section.at = len(out)
            out += data[section.offset : section.offset + section.size]
    entries: dict[str, int] = {}
    for section in sections:
        if section.kind == _SYMBOLS:
            for name, bound, of, value in _symbols(data, section, sections):
                if bound and name and 0 < of < len(sections) and sections[of].at >= 0:
                    entries[name] = sections[of].at + value
        elif section.kind == _RELOCATIONS and sections[section.info].at >= 0:
            symbols = list(_symbols(data, sections[section.link], sections))
            for at in range(section.offset, section.offset + section.size, 24):
                place, info, addend = struct.unpack_from("<QQq", data, at)
                name, _, of, value = symbols[info >> 32]
                where = sections[section.info].at + place
                if of == 0 and name in outside and info & 0xFFFFFFFF == _PLT32:
                    target = _jump(out, entries, name)
                elif info & 0xFFFFFFFF in (_PC32, _PLT32) and 0 < of < len(sections) and sections[of].at >= 0:
                    target = sections[of].at + value
                else:
                    raise RuntimeError(f"compiled code refers to {name or 'something'} by {info & 0xFFFFFFFF}")
                struct.pack_into("<i", out, where, target + addend - where)
    return Image(bytes(out), entries)


def _jump(out: bytearray, entries: dict[str, int], name: str) -> int:
    """Return where there is a jump to a function from outside, made if there was none."""
    at = entries.get(OUTSIDE + name)
    if at is None:
        out += bytes(-(len(out) + len(_JUMP)) % 8) + _JUMP
        at = entries[OUTSIDE + name] = len(out)
        out += bytes(8)
    return at - len(_JUMP)


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    found: list[_Section] = []
    starts: list[int] = []
    for n in range(count):
        name, kind, flags, _, offset, nbytes, link, info, align, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, table + n * size
        )
        found.append(_Section(kind, flags, offset, nbytes, link, info, align))
        starts.append(name)
    for section, start in zip(found, starts):
        section.name = _text(data, found[names].offset + start)
    return found


def _symbols(data: bytes, section: _Section, sections: list[_Section]) -> list[tuple[str, int, int, int]]:
    """List symbols: name, whether others see it, section and value."""
    found = []
    for at in range(section.offset, section.offset + section.size, 24):
        name, info, _, of, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        found.append((_text(data, sections[section.link].offset + name), info >> 4, of, value))
    return found


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
