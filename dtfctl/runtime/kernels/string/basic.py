"""AsString, StringToNumber's siblings: joining, cutting, lengths, case, base64, segment joins."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import WIRE_NAME
from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from dtfctl.runtime.framework.tensor_codec import object_array, object_scalar
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_strings, map_to, only
from dtfctl.runtime.kernels.string.summarize import summarize

_SPACE = b" \t\n\v\f\r"


def _shape(shape: Any) -> str:
    return f"[{','.join(map(str, shape))}]"


@register_kernel("AsString")
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
    if dtype is dtypes.string:
        if width <= 0:
            return lambda x: x
        pattern = (spec + "s").encode()
        return lambda x: map_strings(lambda v: pattern % v.split(b"\0", 1)[0], x)
    if dtype.is_bool:
        return lambda x: object_array([b"true" if v else b"false" for v in x.reshape(-1).tolist()], x.shape)
    if dtype is dtypes.variant:
        return lambda x: map_strings(lambda v: str(v).encode(), x)
    if dtype.is_integer:
        if dtype.is_unsigned and fill in (" ", "+"):
            # C ignores sign flags for unsigned numbers.
            spec = "%" + spec[2:]
        return lambda x: object_array([((spec + "d") % v).encode() for v in _list(x)], x.shape)
    letter = "g" if shortest else "e" if scientific else "f"
    spec += letter
    if dtype.is_complex:
        return lambda x: object_array(
            [f"({_float(spec, v.real)},{_float(spec, v.imag)})".encode() for v in _list(x)], x.shape
        )
    return lambda x: object_array([_float(spec, v).encode() for v in _list(x)], x.shape)


def _float(spec: str, value: float) -> str:
    # C pads infinities and NaNs with spaces, never with zeros.
    if value - value != 0 and spec.startswith("%0"):
        spec = "%" + spec[2:]
    return spec % value


def _list(x: Any) -> Any:
    flat = x.reshape(-1)
    return (flat.astype(np.float32) if flat.dtype.itemsize == 2 and flat.dtype.kind in "fV" else flat).tolist()


@register_kernel("StringJoin")
def string_join(k: KernelBuild) -> Kernel:
    separator = k.attr("separator")

    def run(*inputs: Any) -> Any:
        shaped = [i for i in inputs if i.ndim]
        if not inputs:
            return object_scalar(b"")
        if not shaped:
            return object_scalar(separator.join(only(i) for i in inputs))
        shape = shaped[0].shape
        for i in shaped:
            if i.shape != shape:
                raise InvalidArgumentError(f"Input shapes do not match: {_shape(shape)} vs. {_shape(i.shape)}")
        count = shaped[0].size
        columns = [i.reshape(-1).tolist() if i.ndim else [only(i)] * count for i in inputs]
        return object_array([separator.join(row) for row in zip(*columns)], shape)

    return run


@register_kernel("ReduceJoin")
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
        return object_array([separator.join(row) for row in flat.tolist()], out_shape)

    return run


@register_kernel("UnsortedSegmentJoin")
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
        flat_ids = ids.reshape(-1).tolist()
        if any(i < 0 or i >= count for i in flat_ids):
            raise InvalidArgumentError("segment_ids are not allowed to exceed num_segments or to have negative values.")
        rest = inputs.shape[ids.ndim :]
        rows = inputs.reshape((len(flat_ids), -1)).tolist() if inputs.size else [[] for _ in flat_ids]
        width = int(np.prod(rest, dtype=np.int64))
        parts: list[list[list[bytes]]] = [[[] for _ in range(width)] for _ in range(count)]
        for i, row in zip(flat_ids, rows):
            for column, value in enumerate(row):
                parts[i][column].append(value)
        joined = [separator.join(cell) for segment in parts for cell in segment]
        return object_array(joined, (count, *rest))

    return run


@register_kernel("StringLength")
def string_length(k: KernelBuild) -> Kernel:
    if k.text_attr("unit") == "BYTE":
        return lambda x: map_to(len, x, np.int32)
    return lambda x: map_to(lambda v: sum((b & 0xC0) != 0x80 for b in v), x, np.int32)


@register_kernel("Substr")
def substr(k: KernelBuild) -> Kernel:
    by_char = k.text_attr("unit") == "UTF8_CHAR"

    def cut(value: bytes, pos: int, size: int, where: str) -> bytes:
        if by_char:
            starts = [i for i, b in enumerate(value) if (b & 0xC0) != 0x80] + [len(value)]
            count = len(starts) - 1
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
        texts = np.broadcast_to(values, shape).reshape(-1).tolist()
        starts = np.broadcast_to(pos, shape).reshape(-1).tolist()
        sizes = np.broadcast_to(length, shape).reshape(-1).tolist()
        out = [cut(t, p, n, str(i)) for i, (t, p, n) in enumerate(zip(texts, starts, sizes))]
        return object_array(out, shape)

    return run


@register_kernel("StringStrip")
def string_strip(k: KernelBuild) -> Kernel:
    return lambda x: map_strings(lambda v: v.strip(_SPACE), x)


@register_kernel(("StringLower", "StringUpper"))
def string_case(k: KernelBuild) -> Kernel:
    upper, encoding = k.node.op == "StringUpper", k.text_attr("encoding")
    if encoding not in ("", "utf-8"):
        raise InvalidArgumentError(f"only utf-8 or '' (no encoding) is supported, received {encoding}", k.node.name)
    if not encoding:
        return lambda x: map_strings(bytes.upper if upper else bytes.lower, x)
    change = str.upper if upper else str.lower
    return lambda x: map_strings(lambda v: change(v.decode("utf-8", "replace")).encode(), x)


@register_kernel("EncodeBase64")
def encode_base64(k: KernelBuild) -> Kernel:
    pad = k.attr("pad")

    def encode(value: bytes) -> bytes:
        text = base64.urlsafe_b64encode(value)
        return text if pad else text.rstrip(b"=")

    return lambda x: map_strings(encode, x)


_WEB_SAFE = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@register_kernel("DecodeBase64")
def decode_base64(k: KernelBuild) -> Kernel:
    def decode(value: bytes) -> bytes:
        body = value.rstrip(b"=")
        padding = len(value) - len(body)
        if len(value) % 4 == 1:
            raise InvalidArgumentError("Base64 string length cannot be 1 modulo 4.")
        if not _WEB_SAFE.issuperset(body) or padding > 2 or (padding and len(value) % 4):
            raise InvalidArgumentError("Invalid character found in base64.")
        return base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))

    return lambda x: map_strings(decode, x)


@register_kernel("StringFormat")
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
