"""Keys of tensor slices: byte strings that sort as the values they encode (TensorFlow's OrderedCode)."""

from __future__ import annotations

# Header bits of a signed number of `index` bytes.
_HEADER = (
    b"\x00\x00",
    b"\x80\x00",
    b"\xc0\x00",
    b"\xe0\x00",
    b"\xf0\x00",
    b"\xf8\x00",
    b"\xfc\x00",
    b"\xfe\x00",
    b"\xff\x00",
    b"\xff\x80",
    b"\xff\xc0",
)


def write_number(value: int) -> bytes:
    """Write a nonnegative integer: its length, then its bytes, highest first."""
    body = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([len(body)]) + body


def write_string(value: bytes) -> bytes:
    """Write a string with 0x00 and 0xff escaped, and a terminator."""
    return _escape(value) + b"\x00\x01"


def _escape(value: bytes) -> bytes:
    out = bytearray()
    for byte in value:
        out.append(byte)
        if byte == 0:
            out.append(0xFF)
        elif byte == 0xFF:
            out.append(0)
    return bytes(out)


def write_signed(value: int) -> bytes:
    """Write a signed 64-bit integer in 1 to 10 bytes."""
    magnitude = ~value if value < 0 else value
    if magnitude < 64:
        return bytes([0x80 ^ (value & 0xFF)])
    length = (magnitude.bit_length() + 7) // 7
    raw = bytearray(value.to_bytes(10, "big", signed=True)[10 - length :])
    raw[0] ^= _HEADER[length][0]
    raw[1] ^= _HEADER[length][1]
    return bytes(raw)
