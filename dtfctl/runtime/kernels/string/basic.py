"""AsString, StringToNumber's siblings: joining, cutting, lengths, case, base64, segment joins."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME
from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from dtfctl.runtime.framework.tensor_codec import object_array, object_scalar
from dtfctl.runtime.kernels.pieces import BYTES, ITEMS, changed, each, filled, joined, listed
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_strings, map_to, only
from dtfctl.runtime.kernels.string.summarize import summarize

_SPACE = b" \t\n\v\f\r"
_DIGITS = 1100
"""More than any double has after the point, or in all."""


def _shape(shape: Any) -> str:
    return f"[{','.join(map(str, shape))}]"


@register_kernel("AsString", pieces=True)
def as_string(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")
    width, precision, fill = k.int32_attr("width"), k.int32_attr("precision"), k.text_attr("fill")
    scientific, shortest = k.attr("scientific"), k.attr("shortest")
    formattable = dtype.is_floating or dtype.is_complex or dtype is dtypes.string
    if not formattable:
        if scientific or shortest:
            raise InvalidArgumentError(
                f"scientific and shortest format not supported for datatype {WIRE_NAME[dtype]}", k.node.name
            )
        if precision >= 0:
            raise InvalidArgumentError(f"precision not supported for datatype {WIRE_NAME[dtype]}", k.node.name)
    if len(fill) > 1:
        raise InvalidArgumentError("Fill string must be one or fewer characters", k.node.name)
    if scientific and shortest:
        raise InvalidArgumentError("Cannot select both scientific and shortest notation", k.node.name)
    if fill and fill not in " +-0#":
        raise InvalidArgumentError(f'Fill argument not supported: "{fill}"', k.node.name)
    spec = "%" + fill + (str(width) if width > -1 else "") + (f".{precision}" if precision > -1 else "")
    is_long = width > BYTES or precision > _DIGITS
    if dtype is dtypes.string:
        if width <= 0:
            return lambda x: x
        pattern = (spec + "s").encode()
        if is_long:
            cut = precision if precision > -1 else None
            return lambda x: map_strings(lambda v: _padded(fill, width, v.split(b"\0", 1)[0][:cut], False), x)
        return lambda x: map_strings(lambda v: pattern % v.split(b"\0", 1)[0], x)
    if dtype.is_bool:
        return lambda x: object_array([b"true" if v else b"false" for v in each(x)], x.shape)
    if dtype is dtypes.variant:
        return lambda x: map_strings(lambda v: str(v).encode(), x)
    if dtype.is_integer:
        if dtype.is_unsigned and fill in (" ", "+"):
            # C ignores sign flags for unsigned numbers.
            spec, fill = "%" + spec[2:], ""
        if is_long:
            short = "%" + fill + "d"
            return lambda x: object_array([_padded(fill, width, (short % v).encode(), True) for v in each(x)], x.shape)
        return lambda x: object_array([((spec + "d") % v).encode() for v in each(x)], x.shape)
    letter = "g" if shortest else "e" if scientific else "f"
    spec += letter

    def number(value: float) -> bytes:
        return _long_float(fill, width, precision, letter, value) if is_long else _float(spec, value).encode()

    if dtype.is_complex:
        return lambda x: object_array(
            [joined([b"(", number(v.real), b",", number(v.imag), b")"]) for v in each(x)], x.shape
        )
    return lambda x: object_array([number(v) for v in each(_numbers(x))], x.shape)


def _float(spec: str, value: float) -> str:
    # C pads infinities and NaNs with spaces, never with zeros.
    if value - value != 0 and spec.startswith("%0"):
        spec = "%" + spec[2:]
    return spec % value


def _long_float(fill: str, width: int, precision: int, letter: str, value: float) -> bytes:
    """Write a number as text that is long: no double has more digits than `_DIGITS`, the others are zeros."""
    is_finite = value - value == 0
    digits = min(precision, _DIGITS)
    text = f"%{fill}{f'.{digits}' if precision > -1 else ''}{letter}" % value
    zeros = precision - digits if is_finite and (letter != "g" or fill == "#") else 0
    body, mark, exponent = text.partition("e") if is_finite else (text, "", "")
    return _padded(fill, width, body.encode(), is_finite, zeros, (mark + exponent).encode())


def _padded(fill: str, width: int, text: bytes, is_number: bool, zeros: int = 0, tail: bytes = b"") -> bytes:
    """Pad a text, zeros, and a tail to the width asked for."""
    left = max(0, width - len(text) - zeros - len(tail))
    body = [text, *filled(zeros, b"0"), tail]
    if fill == "-":
        return joined([*body, *filled(left, b" ")])
    if fill == "0" and is_number:
        sign = 1 if text[:1] in (b"+", b"-") else 0
        return joined([text[:sign], *filled(left, b"0"), text[sign:], *body[1:]])
    return joined([*filled(left, b" "), *body])


def _numbers(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def _join(parts: Sequence[bytes], separator: bytes) -> bytes:
    return separator.join(parts)


@register_kernel("StringJoin", pieces=True)
def string_join(k: KernelBuild) -> Kernel:
    separator = k.attr("separator")

    def run(*inputs: Any) -> Any:
        shaped = [i for i in inputs if i.ndim]
        if not inputs:
            return object_scalar(b"")
        if not shaped:
            return object_scalar(joined([only(i) for i in inputs], separator))
        shape = shaped[0].shape
        for i in shaped:
            if i.shape != shape:
                raise InvalidArgumentError(f"Input shapes do not match: {_shape(shape)} vs. {_shape(i.shape)}")
        count = shaped[0].size
        columns = [each(i) if i.ndim else itertools.repeat(only(i), count) for i in inputs]
        # Of many rows none is long.
        join = joined if count <= ITEMS else _join
        return object_array([join(row, separator) for row in zip(*columns)], shape)

    return run


@register_kernel("ReduceJoin", pieces=True)
def reduce_join(k: KernelBuild) -> Kernel:
    keep, separator = k.attr("keep_dims"), k.attr("separator")

    def run(inputs: Any, indices: Any) -> Any:
        rank = inputs.ndim
        axes: list[int] = []
        for i in indices.reshape(-1).tolist():
            axis = i + rank if i < 0 else i
            if not 0 <= axis < rank:
                raise OutOfRangeError(f"Invalid reduction dimension {i} for input with {rank} dimension(s)")
            if axis in axes:
                raise InvalidArgumentError(f"Duplicate reduction dimension {i}")
            axes.append(axis)
        if not axes:
            return inputs
        kept = [d for d in range(rank) if d not in axes]
        # The first of the reduced dimensions varies fastest.
        rows = inputs.transpose(kept + axes[::-1])
        out_shape = tuple(inputs.shape[d] for d in kept)
        width = int(np.prod([inputs.shape[a] for a in axes], dtype=np.int64))
        flat = rows.reshape((int(np.prod(out_shape, dtype=np.int64)), width))
        if keep:
            out_shape = tuple(1 if d in axes else inputs.shape[d] for d in range(rank))
        return object_array([joined(listed(row), separator) for row in flat], out_shape)

    return run


@register_kernel("UnsortedSegmentJoin", pieces=True)
def unsorted_segment_join(k: KernelBuild) -> Kernel:
    separator = k.attr("separator")

    def run(inputs: Any, ids: Any, num_segments: Any) -> Any:
        if num_segments.shape != ():
            raise InvalidArgumentError("Number of segments must be a scalar")
        count = int(num_segments)
        if count < 0:
            raise InvalidArgumentError(f"Number of segments must be non-negative but got {count}")
        if ids.ndim == 0:
            raise InvalidArgumentError("Segment_id cannot have rank 0")
        if ids.ndim > inputs.ndim:
            raise OutOfRangeError(f"Invalid segment_id rank {ids.ndim} for input with {inputs.ndim} dimension(s)")
        for d in range(ids.ndim):
            if ids.shape[d] != inputs.shape[d]:
                raise InvalidArgumentError(
                    f"Segment dimension is {ids.shape[d]} while input dimension is {inputs.ndim} in rank {d}"
                )
        if ids.size and (ids.min() < 0 or ids.max() >= count):
            raise InvalidArgumentError("segment_ids are not allowed to exceed num_segments or to have negative values.")
        rest = inputs.shape[ids.ndim :]
        width = int(np.prod(rest, dtype=np.int64))
        parts: list[list[bytes]] = [[] for _ in each(range(count * width))]
        values = iter(each(inputs))
        for i in each(ids):
            for column in range(width):
                parts[i * width + column].append(next(values))
        return object_array([joined(cell, separator) for cell in each(parts)], (count, *rest))

    return run


@register_kernel("StringLength", pieces=True)
def string_length(k: KernelBuild) -> Kernel:
    if k.text_attr("unit") == "BYTE":
        return lambda x: map_to(len, x, np.int32)
    return lambda x: map_to(lambda v: np.count_nonzero((np.frombuffer(v, np.uint8) & 0xC0) != 0x80), x, np.int32)


@register_kernel("Substr", pieces=True)
def substr(k: KernelBuild) -> Kernel:
    by_char = k.text_attr("unit") == "UTF8_CHAR"

    def cut(value: bytes, pos: int, size: int, where: str) -> bytes:
        if by_char:
            starts = np.append(np.flatnonzero((np.frombuffer(value, np.uint8) & 0xC0) != 0x80), len(value))
            count = starts.size - 1
            if not -count <= pos <= count:
                raise InvalidArgumentError(f"pos {pos} out of range for string at index {where}")
            first = pos + count if pos < 0 else pos
            return value[starts[first] : starts[min(count, first + size)]] if size > 0 else b""
        if not -len(value) <= pos <= len(value):
            shown = value.decode("utf-8", "replace")
            raise InvalidArgumentError(f"pos {pos} out of range for string b'{shown}' at index {where}")
        first = pos + len(value) if pos < 0 else pos
        return value[first : first + size] if size >= 0 else value[first:]

    def run(values: Any, pos: Any, length: Any) -> Any:
        if pos.shape != length.shape:
            raise InvalidArgumentError(
                f"pos and len should have the same shape, got: {_shape(pos.shape)} vs. {_shape(length.shape)}"
            )
        try:
            shape = np.broadcast_shapes(values.shape, pos.shape)
        except ValueError:
            raise InvalidArgumentError(f"Incompatible shapes: {_shape(values.shape)} vs. {_shape(pos.shape)}") from None
        if len(shape) > 2 and values.shape != pos.shape and pos.ndim:
            raise UnimplementedError(f"Substr broadcast not implemented for {len(shape)} dimensions")
        texts, starts, sizes = (each(np.broadcast_to(part, shape)) for part in (values, pos, length))
        out = [cut(t, p, n, str(i)) for i, (t, p, n) in enumerate(zip(texts, starts, sizes))]
        return object_array(out, shape)

    return run


@register_kernel("StringStrip", pieces=True)
def string_strip(k: KernelBuild) -> Kernel:
    return lambda x: map_strings(lambda v: v.strip(_SPACE), x)


@register_kernel(("StringLower", "StringUpper"), pieces=True)
def string_case(k: KernelBuild) -> Kernel:
    upper, encoding = k.node.op == "StringUpper", k.text_attr("encoding")
    if encoding not in ("", "utf-8"):
        raise InvalidArgumentError(f"only utf-8 or '' (no encoding) is supported, received {encoding}", k.node.name)
    if not encoding:
        ascii_case = bytes.upper if upper else bytes.lower
        return lambda x: map_strings(lambda v: changed(v, ascii_case), x)
    change = str.upper if upper else str.lower
    return lambda x: map_strings(lambda v: change(v.decode("utf-8", "replace")).encode(), x)


@register_kernel("EncodeBase64", pieces=True)
def encode_base64(k: KernelBuild) -> Kernel:
    pad = k.attr("pad")

    def encode(value: bytes) -> bytes:
        text = changed(value, base64.urlsafe_b64encode, 3)
        return text if pad else text.rstrip(b"=")

    return lambda x: map_strings(encode, x)


_WEB_SAFE = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@register_kernel("DecodeBase64", pieces=True)
def decode_base64(k: KernelBuild) -> Kernel:
    def decode(value: bytes) -> bytes:
        body = value.rstrip(b"=")
        padding = len(value) - len(body)
        if len(value) % 4 == 1:
            raise InvalidArgumentError("Base64 string length cannot be 1 modulo 4.")
        if padding > 2 or (padding and len(value) % 4):
            raise InvalidArgumentError("Invalid character found in base64.")
        return changed(body, decode_part, 4)

    def decode_part(part: bytes) -> bytes:
        if not _WEB_SAFE.issuperset(part):
            raise InvalidArgumentError("Invalid character found in base64.")
        return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))

    return lambda x: map_strings(decode, x)


@register_kernel("StringFormat", pieces=True)
def string_format(k: KernelBuild) -> Kernel:
    pieces = k.text_attr("template").split(k.text_attr("placeholder"))
    limit, types = k.attr("summarize"), k.attr("T")
    if len(pieces) - 1 != len(types):
        raise InvalidArgumentError(
            f"num placeholders in template and num inputs must match: {len(pieces) - 1} vs. {len(types)}", k.node.name
        )

    def run(*inputs: Any) -> Any:
        shown = [summarize(v, t, limit, True) for v, t in zip(inputs, types)]
        text = "".join(itertools.chain.from_iterable(zip(pieces, [*shown, ""])))
        return object_scalar(text.encode("utf-8", "surrogateescape"))

    return run
