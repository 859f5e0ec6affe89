"""PNG files without any library but zlib: enough to write summaries and to read what anybody writes (RFC 2083)."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.pieces import each, look

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_OF_CHANNELS = {1: 0, 2: 4, 3: 2, 4: 6}
_CHANNELS_OF_COLOR = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Adam7: first row, first column, row step, column step of each pass.
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
_MAX_PIXELS = 1 << 28


def encode_png(image: Any, level: int = -1) -> bytes:
    """Encode an image (height, width, 1 to 4 channels), uint8 or uint16, as a PNG file."""
    look()
    height, width, channels = image.shape
    bits = 16 if image.dtype == np.uint16 else 8
    data = np.ascontiguousarray(image, ">u2" if bits == 16 else np.uint8)
    rows = data.reshape(height, -1).view(np.uint8)
    # Each row as its difference to the one above ("up"), which compresses well and is one vector operation.
    differences = rows.copy()
    differences[1:] -= rows[:-1]
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = 2
    filtered[:, 1:] = differences
    header = struct.pack(">IIBBBBB", width, height, bits, _COLOR_OF_CHANNELS[channels], 0, 0, 0)
    body = zlib.compress(filtered.tobytes(), level)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def decode_png(contents: bytes) -> Any:
    """Decode a PNG file to pixels: (height, width, channels), uint8 or uint16; palettes are resolved.

    Raises:
        InvalidArgumentError: the file is malformed.
    """
    try:
        return _decode(contents)
    except (struct.error, zlib.error, ValueError, KeyError, IndexError) as e:
        raise InvalidArgumentError(f"Invalid PNG data, size {len(contents)}: {e}") from None


def _chunks(contents: bytes) -> dict[bytes, bytes]:
    out: dict[bytes, bytes] = {}
    position = len(SIGNATURE)
    while position + 8 <= len(contents):
        length, kind = struct.unpack_from(">I4s", contents, position)
        data = contents[position + 8 : position + 8 + length]
        if len(data) != length:
            raise ValueError("a chunk runs past the end")
        out[kind] = out.get(kind, b"") + data
        position += 12 + length
        if kind == b"IEND":
            break
    return out


def _decode(contents: bytes) -> Any:
    chunks = _chunks(contents)
    width, height, bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if width * height > _MAX_PIXELS or not width or not height:
        raise ValueError(f"unreasonable size {width} x {height}")
    samples = _CHANNELS_OF_COLOR[color]
    stream = zlib.decompressobj().decompress(chunks[b"IDAT"], 16 * width * height + 16 * height + 64)
    if interlaced:
        pixels = np.zeros((height, width, samples), np.uint16 if bits == 16 else np.uint8)
        position = 0
        for top, left, down, right in _PASSES:
            rows, columns = -(-(height - top) // down), -(-(width - left) // right)
            if rows > 0 and columns > 0:
                part, position = _read_rows(stream, position, rows, columns, bits, samples)
                pixels[top::down, left::right] = part
    else:
        pixels, _ = _read_rows(stream, 0, height, width, bits, samples)
    if color == 3:
        return _apply_palette(pixels, chunks)
    if bits < 8:
        pixels = pixels * np.uint8(255 // ((1 << bits) - 1))
    if b"tRNS" in chunks and color in (0, 2):
        key = np.frombuffer(chunks[b"tRNS"], ">u2")
        scale = 255 // ((1 << bits) - 1) if bits < 8 else 1
        clear = (pixels == (key * scale).astype(pixels.dtype)).all(axis=-1)
        full = pixels.dtype.type(65535 if bits == 16 else 255)
        alpha = np.where(clear, pixels.dtype.type(0), full)[..., None]
        pixels = np.concatenate([pixels, alpha], axis=-1)
    return pixels


def _apply_palette(pixels: Any, chunks: dict[bytes, bytes]) -> Any:
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    index = pixels[..., 0]
    if index.max() >= len(palette):
        raise ValueError("a pixel is outside the palette")
    colors = palette[index]
    if b"tRNS" not in chunks:
        return colors
    alpha = np.full(256, 255, np.uint8)
    known = np.frombuffer(chunks[b"tRNS"], np.uint8)
    alpha[: known.size] = known
    return np.concatenate([colors, alpha[index][..., None]], axis=-1)


def _read_rows(stream: bytes, position: int, height: int, width: int, bits: int, samples: int) -> tuple[Any, int]:
    """Undo the filters of `height` rows; gives their samples and where the stream goes on."""
    length = (width * bits * samples + 7) // 8
    step = max(1, bits * samples // 8)
    end = position + height * (length + 1)
    raw = np.frombuffer(stream, np.uint8)[position:end]
    if raw.size != end - position:
        raise ValueError("not enough image data")
    lines = raw.reshape(height, length + 1)
    out = np.empty((height, length), np.uint8)
    above = np.zeros(length, np.uint8)
    for i in range(height):
        look()
        above = out[i] = _unfilter(int(lines[i, 0]), lines[i, 1:], above, step)
    if bits == 16:
        values: Any = out.reshape(height, -1).view(">u2").astype(np.uint16)
    elif bits == 8:
        values = out
    else:
        values = np.unpackbits(out, axis=1).reshape(height, -1, bits)
        weights = 1 << np.arange(bits - 1, -1, -1)
        values = (values * weights).sum(axis=2).astype(np.uint8)[:, : width * samples]
    return values.reshape(height, width, samples), end


def _unfilter(kind: int, line: Any, above: Any, step: int) -> Any:
    if kind == 0:
        return line.copy()
    if kind == 2:
        return line + above
    if kind == 1:
        padded = np.zeros(-(-line.size // step) * step, np.uint8)
        padded[: line.size] = line
        return np.cumsum(padded.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)[: line.size]
    if kind not in (3, 4):
        raise ValueError(f"unknown filter {kind}")
    out = bytearray(line.tobytes())
    up = above.tobytes()
    for i in each(range(len(out))):
        left = out[i - step] if i >= step else 0
        if kind == 3:
            guess = (left + up[i]) >> 1
        else:
            corner = up[i - step] if i >= step else 0
            estimate = left + up[i] - corner
            by_left, by_up, by_corner = abs(estimate - left), abs(estimate - up[i]), abs(estimate - corner)
            guess = left if by_left <= by_up and by_left <= by_corner else up[i] if by_up <= by_corner else corner
        out[i] = (out[i] + guess) & 0xFF
    return np.frombuffer(bytes(out), np.uint8)
