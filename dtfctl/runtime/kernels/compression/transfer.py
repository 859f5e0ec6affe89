"""Encoding what is sent to another host, decoding what has come."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.compression import ENCODED, Codec, decode, encode, parse_codec
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text
from dtfctl.runtime.kernels.variable import Variable


def _codec_of(k: KernelBuild) -> tuple[Codec, tuple[int, ...]]:
    shape = k.attr("shape")
    if shape is None or not shape.is_fully_defined():
        raise InvalidArgumentError(f"{k.node.op} needs a shape that is known in full", k.node.name)
    return parse_codec(k.text_attr("codec")), shape.known()


@register_kernel("CompressedTransfer")
def compressed_transfer(k: KernelBuild) -> Kernel:
    """Pass a tensor to who is near: for the others, the split by task has put an EncodeTensor behind it."""
    return lambda value, *state: value


@register_kernel("EncodeTensor")
def encode_tensor(k: KernelBuild) -> Kernel:
    codec, shape = _codec_of(k)
    size = codec.state_size(shape)
    nothing = np.zeros(0, np.float32)

    def kernel(value: Any, *state: Variable) -> Any:
        if value.shape != shape:
            raise InvalidArgumentError(
                f"A tensor of shape {shape_text(value.shape)} is to be sent as one of shape {shape_text(shape)}"
            )
        if not size:
            encoded = encode(codec, value, nothing, nothing)
        else:
            encoded = _with_state(state[0], value)
        ENCODED.add(value.nbytes, encoded.nbytes)
        return encoded

    def _with_state(kept: Variable, value: Any) -> Any:
        encoded: list[Any] = []
        with kept.lock:
            if not kept.is_initialized:
                kept.assign(np.zeros(size, np.float32))
            elif kept.read().shape != (size,):
                raise InvalidArgumentError(
                    f"What {codec.name} keeps of this tensor has the shape {shape_text((size,))}, and this is "
                    f"{shape_text(kept.read().shape)}: another codec's"
                )
            kept.update(lambda before, after: encoded.append(encode(codec, value, before, after)))
        return encoded[0]

    return kernel


@register_kernel("DecodeTensor")
def decode_tensor(k: KernelBuild) -> Kernel:
    codec, shape = _codec_of(k)
    return lambda encoded: decode(codec, encoded, shape)
