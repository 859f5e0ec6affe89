"""Bytes to tensors and back: raw numbers, compressed strings, serialized tensors, JSON examples, whole files."""

from __future__ import annotations

import base64
import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.protocol import example_pb2, tensor_pb2
from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor, object_array, object_scalar
from dtfctl.runtime.kernels.admission import gathered
from dtfctl.runtime.kernels.arguments import text_of
from dtfctl.runtime.kernels.data_flow.handles import shape_text, type_text
from dtfctl.runtime.kernels.io.records import matching_files
from dtfctl.runtime.kernels.pieces import BYTES, each, joined, look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_strings


def _ordered(array: Any, little: bool) -> Any:
    return array if little or array.dtype.itemsize == 1 else array.byteswap()


@register_kernel("DecodeRaw", pieces=True)
def decode_raw(k: KernelBuild) -> Kernel:
    dtype, little = k.dtype("out_type"), k.attr("little_endian")

    def run(values: Any) -> Any:
        items = list(each(values))
        if not items:
            return np.zeros((*values.shape, 0), dtype.np)
        size = len(items[0])
        for i, item in enumerate(each(items)):
            if len(item) != size:
                raise InvalidArgumentError(
                    "DecodeRaw requires input strings to all be the same size, but element "
                    f"{i} has size {size} != {len(item)}"
                )
        width = dtype.np.itemsize
        if size % width:
            raise InvalidArgumentError(
                f"Input to DecodeRaw has length {size} that is not a multiple of {width}, the size of "
                f"{type_text(dtype)}"
            )
        flat = np.frombuffer(joined(items), dtype.np)
        return _ordered(flat, little).reshape((*values.shape, size // width))

    return run


@register_kernel("DecodePaddedRaw", pieces=True)
def decode_padded_raw(k: KernelBuild) -> Kernel:
    dtype, little = k.dtype("out_type"), k.attr("little_endian")

    def run(values: Any, length: Any) -> Any:
        if length.shape != ():
            raise InvalidArgumentError(f"k must be scalar, got shape {shape_text(length.shape)}")
        size, width = int(length), dtype.np.itemsize
        if size % width:
            raise InvalidArgumentError(
                f"fixed_length ({size}) must be a multiple of the size of out_type ({width})",
            )
        if size <= 0:
            raise InvalidArgumentError(f"fixed_length ({size}) must be greater than zero.")
        whole = joined([v[:size].ljust(size, b"\0") for v in each(values)])
        return _ordered(np.frombuffer(whole, dtype.np), little).reshape((*values.shape, size // width))

    return run


@register_kernel("DecodeCompressed", pieces=True)
def decode_compressed(k: KernelBuild) -> Kernel:
    kind = k.text_attr("compression_type")
    if kind not in ("", "ZLIB", "GZIP"):
        raise InvalidArgumentError(f"Only ZLIB, GZIP or NONE are supported compressions: {kind}", k.node.name)
    if not kind:
        return lambda x: x
    window = zlib.MAX_WBITS if kind == "ZLIB" else 16 + zlib.MAX_WBITS

    def decode(value: bytes) -> bytes:
        try:
            return inflate(value, window)
        except zlib.error as e:
            raise DataLossError(f"inflate() failed: {e}") from e

    return lambda x: map_strings(decode, x)


_GIVEN = 1 << 16
"""Bytes that are decompressed at a time."""


def inflate(value: bytes, window: int) -> bytes:
    """Decompress a string; a file of several members, one after the other, where `window` says that it is one.

    Raises:
        zlib.error: the string is malformed, or ends too early.
        ResourceExhaustedError: the text is longer than there is memory for.
    """
    out, at, again = io.BytesIO(), 0, 0
    is_file = window > zlib.MAX_WBITS
    while not is_file or at < len(value):
        stream, left = zlib.decompressobj(window), b""
        while not stream.eof:
            look()
            given = left or value[at : at + _GIVEN]
            at += 0 if left else len(given)
            part = stream.decompress(given, BYTES)
            left = stream.unconsumed_tail
            if not given and not part:
                raise zlib.error("incomplete or truncated stream")
            out.write(part)
            if out.tell() >= again:
                again = gathered(max(1, out.tell()), 1)
        at -= len(stream.unused_data)
        if not is_file:
            break
        while value[at : at + 1] == b"\0":
            at += 1
    return out.getvalue()


@register_kernel("SerializeTensor", pieces=True)
def serialize_tensor(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")
    return lambda value: object_scalar(encode_tensor(value, dtype).SerializeToString())


@register_kernel("ParseTensor")
def parse_tensor(k: KernelBuild) -> Kernel:
    dtype = k.dtype("out_type")

    def run(serialized: Any) -> Any:
        if serialized.shape != ():
            raise InvalidArgumentError(
                f"Expected `serialized` to be a scalar, got shape: {shape_text(serialized.shape)}"
            )
        text = serialized.reshape(-1)[0]
        try:
            proto = tensor_pb2.TensorProto.FromString(text)
        except Exception as e:
            raise InvalidArgumentError(
                f"Could not parse `serialized` as TensorProto, base64: {base64.b64encode(text).decode()}"
            ) from e
        value = decode_tensor(proto)
        if as_dtype(int(proto.dtype)) is not dtype:
            raise InvalidArgumentError(
                f"Type mismatch between parsed tensor ({type_text(as_dtype(int(proto.dtype)))}) and dtype "
                f"({type_text(dtype)})"
            )
        return value

    return run


@register_kernel("DecodeJSONExample", pieces=True)
def decode_json_example(k: KernelBuild) -> Kernel:
    from google.protobuf import json_format

    def decode(text: bytes) -> bytes:
        try:
            return json_format.Parse(text, example_pb2.Example()).SerializeToString()
        except json_format.ParseError as e:
            raise InvalidArgumentError(f"Error while parsing JSON: {e}") from e

    return lambda x: map_strings(decode, x)


def _path(value: Any, what: str) -> str:
    if value.shape != ():
        raise InvalidArgumentError(f"{what} must be scalar, but had shape: {shape_text(value.shape)}")
    return text_of(value)


@register_kernel("ReadFile", blocking=True)
def read_file(k: KernelBuild) -> Kernel:
    def run(filename: Any) -> Any:
        path = _path(filename, "Input filename tensor")
        try:
            return object_scalar(Path(local_path(path)).read_bytes())
        except OSError as e:
            raise os_error(e, path) from e

    return run


@register_kernel("WriteFile", blocking=True)
def write_file(k: KernelBuild) -> Kernel:
    def run(filename: Any, contents: Any) -> None:
        path = Path(local_path(_path(filename, "Input filename tensor")))
        if contents.shape != ():
            raise InvalidArgumentError(f"Contents tensor must be scalar, but had shape: {shape_text(contents.shape)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents.reshape(-1)[0])
        except OSError as e:
            raise os_error(e, str(path)) from e

    return run


@register_kernel("MatchingFiles", blocking=True)
def matching_files_kernel(k: KernelBuild) -> Kernel:
    def run(patterns: Any) -> Any:
        if patterns.ndim > 1:
            raise InvalidArgumentError(
                f"Input patterns tensor must be scalar or vector, but had shape: {shape_text(patterns.shape)}"
            )
        found = matching_files(p.decode() for p in patterns.reshape(-1).tolist())
        return object_array(found, (len(found),))

    return run


@register_kernel("LMDBReader")
def lmdb_reader(k: KernelBuild) -> Kernel:
    raise UnimplementedError("LMDBReader is not supported: convert the data to TFRecords", k.node.name)
