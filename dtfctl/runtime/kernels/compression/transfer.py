"""Encoding what is sent to another host, decoding what has come."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dtfctl.runtime.compression import ENCODED, Codec, decode, encode, is_encoded, parse_codec
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.context import StepContext
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


@register_kernel("EncodeTensor", step=True)
def encode_tensor(k: KernelBuild) -> Kernel:
    """Encode a tensor, or send it whole where its codec takes longer than it saves on the link to `peer`."""
    codec, shape = _codec_of(k)
    size = codec.state_size(shape)
    nothing = np.zeros(0, np.float32)
    text, edge, peer = k.text_attr("codec"), k.text_attr("edge"), k.text_attr("peer")

    def kernel(step: StepContext, value: Any, *state: Variable) -> Any:
        if value.shape != shape:
            raise InvalidArgumentError(
                f"A tensor of shape {shape_text(value.shape)} is to be sent as one of shape {shape_text(shape)}"
            )
        ledger = step.rendezvous.ledger(peer) if peer else None
        is_on = ledger is None or ledger.encodes(edge, text)
        started = time.perf_counter()
        if not size:
            encoded = encode(codec, value, nothing, nothing, is_on)
        else:
            encoded = _with_state(state[0], value, is_on)
        if is_on:
            if ledger is not None:
                ledger.encoded(edge, text, value.nbytes, encoded.nbytes, time.perf_counter() - started)
            ENCODED.add(value.nbytes, encoded.nbytes)
        return encoded

    def _with_state(kept: Variable, value: Any, is_on: bool) -> Any:
        encoded: list[Any] = []
        with kept.lock:
            if not kept.is_initialized:
                kept.assign(np.zeros(size, np.float32))
            elif kept.read().shape != (size,):
                raise InvalidArgumentError(
                    f"What {codec.name} keeps of this tensor has the shape {shape_text((size,))}, and this is "
                    f"{shape_text(kept.read().shape)}: another codec's"
                )
            kept.update(lambda before, after: encoded.append(encode(codec, value, before, after, is_on)))
        return encoded[0]

    return kernel


@register_kernel("DecodeTensor", step=True)
def decode_tensor(k: KernelBuild) -> Kernel:
    """Decode what EncodeTensor sent; `peer` is told how long that takes."""
    codec, shape = _codec_of(k)
    text, peer = k.text_attr("codec"), k.text_attr("peer")

    def kernel(step: StepContext, encoded: Any) -> Any:
        ledger = step.rendezvous.ledger(peer) if peer and is_encoded(encoded) else None
        if ledger is None:
            return decode(codec, encoded, shape)
        started = time.perf_counter()
        value = decode(codec, encoded, shape)
        ledger.decoded(text, value.nbytes, time.perf_counter() - started)
        return value

    return kernel


@register_kernel("RestoreTransferState")
def restore_transfer_state(k: KernelBuild) -> Kernel:
    """Give a worker back what its codec kept, where the table has it: its name is among the keys."""

    def kernel(state: Variable, worker: Any, keys: Any, values: Any) -> None:
        if worker[0] in keys:
            with state.lock:
                state.assign(np.array(values[0]))

    return kernel
