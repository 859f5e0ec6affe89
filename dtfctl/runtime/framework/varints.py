"""Numbers of variable length, as protobuf, tables and Snappy write them."""

from __future__ import annotations

from dtfctl.runtime.framework.errors import DataLossError


def varint(value: int) -> bytes:
    """Encode a number with seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read the number at `at`; give the position after it too.

    Raises:
        DataLossError: it runs past the end.
    """
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise DataLossError("truncated or malformed varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
