"""Codecs lose nothing for good, say what they refuse, and take no bytes on trust."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.compression import decode, encode, parse_codec
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError

ALL = [
    "float16",
    "bfloat16",
    "int8",
    "int8:block=16",
    "onebit:block=64",
    "topk:ratio=0.1",
    "topk:ratio=0.02,momentum=0.5,warmup=3",
    "powersgd:rank=1",
]
SHAPES = [(1,), (7,), (300,), (1, 1), (16, 40), (3, 3, 8, 20), (70_000,)]


def values_of(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


@pytest.mark.parametrize("text", ALL)
def test_a_tensor_comes_back_in_its_shape_and_smaller(text: str) -> None:
    codec = parse_codec(text)
    for shape in SHAPES:
        tensor, state = values_of(shape, 1), np.zeros(codec.state_size(shape), np.float32)
        message = encode(codec, tensor, state, state)
        got = decode(codec, message, shape)
        assert got.shape == shape and got.dtype == np.float32, shape
        assert message.nbytes <= tensor.nbytes + 8 or text.startswith("int8"), shape
        if math.prod(shape) > 500 and not (text == "powersgd:rank=1" and len(shape) < 2):
            assert message.nbytes < 0.6 * tensor.nbytes, shape


@pytest.mark.parametrize("text", ["onebit:block=64", "topk:ratio=0.1", "topk:ratio=0.02,warmup=3", "powersgd:rank=1"])
@settings(max_examples=20, deadline=None)
@given(st.sampled_from([(300,), (16, 40), (3, 3, 8, 20)]), st.integers(1, 6), st.floats(1e-3, 1e3))
def test_what_is_not_sent_is_kept(text: str, shape: tuple[int, ...], steps: int, scale: float) -> None:
    codec = parse_codec(text)
    state, given_, got = np.zeros(codec.state_size(shape), np.float32), np.zeros(shape), np.zeros(shape)
    for step in range(steps):
        tensor = values_of(shape, step, scale)
        given_ += tensor
        got += decode(codec, encode(codec, tensor, state, state), shape)
    kept = state[: math.prod(shape)] if len(state) else np.zeros(math.prod(shape))
    assert np.allclose(got + kept.reshape(shape), given_, atol=1e-4 * scale)


def test_eight_bits_are_half_a_step_off_at_most() -> None:
    codec, nothing = parse_codec("int8:block=32"), np.zeros(0, np.float32)
    tensor = values_of((1000,), 3) * np.logspace(-30, 5, 1000, dtype=np.float32)
    got = decode(codec, encode(codec, tensor, nothing, nothing), (1000,))
    for block in range(0, 1000, 32):
        part = tensor[block : block + 32]
        assert np.abs(got[block : block + 32] - part).max() <= np.abs(part).max() / 127 * 0.501


@pytest.mark.parametrize(("text", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_half_of_each_element_is_rounded_to_nearest(text: str, bits: int) -> None:
    codec, nothing = parse_codec(text), np.zeros(0, np.float32)
    tensor = np.concatenate([values_of((1000,), 3), np.float32([0, -0.0, 1, -1, 60_000, 1 + 2.0**-bits])])
    message = encode(codec, tensor, nothing, nothing)
    assert message.nbytes == 8 + 2 * 1006
    got = decode(codec, message, (1006,))
    assert np.abs(got / np.where(tensor, tensor, 1) - np.sign(np.abs(tensor))).max() <= 2.0**-bits
    # As near to 1 as to what comes after: the even one.
    assert got[-1] == 1


def test_what_half_precision_cannot_hold_is_sent_as_it_is() -> None:
    codec, nothing = parse_codec("float16"), np.zeros(0, np.float32)
    tensor = np.float32([1.0001, -70_000])
    assert decode(codec, encode(codec, tensor, nothing, nothing), (2,)).tolist() == tensor.tolist()


def test_momentum_is_added_up_and_forgotten_where_it_was_sent() -> None:
    codec = parse_codec("topk:ratio=0.25,momentum=0.5")
    state = np.zeros(codec.state_size((8,)), np.float32)
    first = np.array([8, 1, 1, 1, 1, 1, 1, 7], np.float32)
    assert decode(codec, encode(codec, first, state, state), (8,)).tolist() == [8, 0, 0, 0, 0, 0, 0, 7]
    # Each of the others has now 1 and, with its momentum, 0.5 + 1 more; those that were sent have no momentum left.
    second = np.array([0, 1, 1, 1, 1, 1, 9, 0], np.float32)
    assert decode(codec, encode(codec, second, state, state), (8,)).tolist() == [0, 0, 0, 0, 0, 2.5, 10.5, 0]


def test_the_share_that_is_sent_shrinks_while_it_warms_up() -> None:
    codec = parse_codec("topk:ratio=0.01,warmup=2")
    state = np.zeros(codec.state_size((10_000,)), np.float32)
    sizes = [encode(codec, values_of((10_000,), i), state, state).nbytes // 8 for i in range(4)]
    assert sizes == [2501, 501, 101, 101]


def test_a_matrix_of_low_rank_is_sent_exactly() -> None:
    codec = parse_codec("powersgd:rank=2")
    matrix = values_of((30, 2), 1) @ values_of((2, 50), 2)
    state = np.zeros(codec.state_size((30, 50)), np.float32)
    message = encode(codec, matrix, state, state)
    assert message.nbytes == 8 + 4 * 2 * (30 + 50)
    assert np.allclose(decode(codec, message, (30, 50)), matrix, atol=1e-4)


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_arrives_so_and_leaves_nothing_behind(text: str, bad: float) -> None:
    codec = parse_codec(text)
    tensor = values_of((16, 40), 5)
    tensor[3, 3] = bad
    state = np.full(codec.state_size((16, 40)), 0.5, np.float32)
    then = np.zeros_like(state)
    got = decode(codec, encode(codec, tensor, state, then), (16, 40))
    assert np.array_equal(got, tensor, equal_nan=True)
    assert (then == 0.5).all()


@pytest.mark.parametrize("text", ALL)
def test_bytes_that_are_no_tensor_are_refused(text: str) -> None:
    codec, shape = parse_codec(text), (16, 40)
    state = np.zeros(codec.state_size(shape), np.float32)
    message = encode(codec, values_of(shape, 1), state, state)
    for wrong in (message[:5], message[:-4], np.concatenate([message, message[:4]]), message.astype(np.int32)):
        with pytest.raises(DataLossError):
            decode(codec, wrong, shape)
    unknown = message.copy()
    unknown[0] = 9
    with pytest.raises(DataLossError):
        decode(codec, unknown, shape)


def test_an_element_that_the_tensor_does_not_have_is_refused() -> None:
    codec, state = parse_codec("topk:ratio=0.1"), np.zeros(100, np.float32)
    message = encode(codec, values_of((100,), 1), state, state)
    message[8:12] = 255
    with pytest.raises(DataLossError, match="does not have"):
        decode(codec, message, (100,))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("zip", "no codec 'zip': there are bfloat16, float16, int8, onebit, powersgd, topk"),
        ("topk:share=0.1", "topk has the parameters ratio, momentum, warmup"),
        ("topk:ratio", "topk has the parameters"),
        ("float16:bits=3", "float16 has no parameters"),
        ("topk:ratio=much", "not a number"),
        ("powersgd:rank=1.5", "not a whole number"),
        ("topk:ratio=0", "not a share above 0"),
        ("topk:momentum=1", "not from 0 to below 1"),
        ("powersgd:rank=0", "less than 1"),
        ("int8:block=1", "too small"),
        ("onebit:block=8", "too small"),
    ],
)
def test_a_codec_that_cannot_be_says_why(text: str, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        parse_codec(text)
