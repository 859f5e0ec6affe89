"""Kernels that work in pieces give what they give at once, and end in the middle when their step is told to end."""

from __future__ import annotations

import base64
import gzip
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2, example_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, DataLossError, OpError, ResourceExhaustedError
from dtfctl.runtime.kernels import admission, pieces
from dtfctl.runtime.kernels.io import decode
from dtfctl.runtime.kernels.registry import load_all_kernels
from dtfctl.runtime.kernels.string import basic, split
from tests.support import interpreter
from tests.support.examples import examples
from tests.support.interpreter import run_op
from tests.support.waiting import eventually
from tests.unit.kernels import oracle_cases

ORACLES = ("array", "edges", "image", "linalg", "math", "nn", "ragged", "random", "sparse", "state", "training")


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pieces so small that any input has several."""
    for module in (pieces, basic, split, decode):
        monkeypatch.setattr(module, "BYTES", 12)
    monkeypatch.setattr(pieces, "ITEMS", 1)
    monkeypatch.setattr(pieces, "BLOCK", 1)


class Token(CancellationToken):
    """Counts looks; the step is told to end between two of them."""

    looks = 0
    ends_at = -1

    def check(self) -> None:
        Token.looks += 1
        if Token.looks == Token.ends_at:
            self.cancel(CancelledError("enough"))
        super().check()


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> type[Token]:
    monkeypatch.setattr(interpreter, "CancellationToken", Token)
    Token.looks, Token.ends_at = 0, -1
    return Token


def text(*items: Any) -> Any:
    out = np.empty(len(items), object)
    out[:] = [i if isinstance(i, bytes) else i.encode() for i in items]
    return out


def one(item: str) -> Any:
    return np.array(item.encode(), object)


def example(**features: list[int]) -> bytes:
    made = example_pb2.Example()
    for name, values in features.items():
        made.features.feature[name].int64_list.value.extend(values)
    return made.SerializeToString()


STRINGS = text("Abc dé ", "", "x,y,z" * 9, "\x00\xff", b"\xff\xfe" * 20, "42")
NUMBERS = text("1", " 2.5", "-3e4", "0x1p-3", "7")
BASE64 = text(*(base64.urlsafe_b64encode(b"0123456789" * n) for n in range(1, 6)))
ZIPPED = text(*(zlib.compress(b"abc" * n) for n in (0, 1, 50, 5000)))
GZIPPED = text(gzip.compress(b"abc" * 5000) + gzip.compress(b"def" * 9), gzip.compress(b""), b"")
Run = Callable[[], Any]


def found_in_table() -> Any:
    graph = tf.Graph()
    with graph.as_default():
        keys = tf.constant([str(i) for i in range(40)])
        initializer = tf.lookup.KeyValueTensorInitializer(keys, tf.range(40, dtype=tf.int64))
        table = tf.lookup.StaticHashTable(initializer, -1)
        with tf.control_dependencies([table.initializer]):
            found = table.lookup(keys)
    return interpreter.Interpreter(graph.as_graph_def()).run([found.name])[0]


TABLE: dict[str, Run] = {
    "AsString float": lambda: run_op("AsString", np.array([1.5, -np.inf, 3e30], np.float32), width=40, precision=20),
    "AsString zeros": lambda: run_op("AsString", np.array([-7, 12345]), width=30, fill="0"),
    "AsString complex": lambda: run_op("AsString", np.array([1 - 2j, 0]), width=30, fill="-"),
    "AsString string": lambda: run_op("AsString", text("ab", "c\x00d"), width=50, precision=1),
    "StringJoin": lambda: run_op("StringJoin", [STRINGS, one("--"), STRINGS], separator=", "),
    "ReduceJoin": lambda: run_op("ReduceJoin", STRINGS.reshape(2, 3), np.array([0]), separator="+"),
    "UnsortedSegmentJoin": lambda: run_op(
        "UnsortedSegmentJoin", STRINGS.reshape(3, 2), np.array([2, 0, 2]), np.array(4), separator="+"
    ),
    "StringLength": lambda: run_op("StringLength", STRINGS, unit="UTF8_CHAR"),
    "Substr": lambda: run_op("Substr", text("añb", "çd"), np.array([-1, 0]), np.array([1, 9]), unit="UTF8_CHAR"),
    "StringUpper": lambda: run_op("StringUpper", STRINGS),
    "StringLower": lambda: run_op("StringLower", text("ÄB", "c", ""), encoding="utf-8"),
    "StringStrip": lambda: run_op("StringStrip", STRINGS),
    "EncodeBase64": lambda: run_op("EncodeBase64", STRINGS, pad=False),
    "DecodeBase64": lambda: run_op("DecodeBase64", BASE64),
    "StringFormat": lambda: run_op("StringFormat", [np.arange(60).reshape(2, 30)], template="<%s>", summarize=-1),
    "RegexReplace": lambda: run_op("RegexReplace", STRINGS, one("[xz]"), one("<\\0>")),
    "StaticRegexReplace": lambda: run_op("StaticRegexReplace", STRINGS, pattern="y?", rewrite="-"),
    "RegexFullMatch": lambda: run_op("RegexFullMatch", STRINGS, one("\\d+")),
    "StaticRegexFullMatch": lambda: run_op("StaticRegexFullMatch", STRINGS, pattern="(x,y,z)*"),
    "StringToHashBucketFast": lambda: run_op("StringToHashBucketFast", STRINGS, num_buckets=1000),
    "StringToHashBucket": lambda: run_op("StringToHashBucket", STRINGS, num_buckets=1000),
    "StringToHashBucketStrong": lambda: run_op("StringToHashBucketStrong", STRINGS, num_buckets=1000, key=[1, 2]),
    "StringSplit": lambda: run_op("StringSplit", text("a b,,c " * 20, "", "x"), one(" ,"), skip_empty=False),
    "StringSplitV2": lambda: run_op("StringSplitV2", text("a,,b," * 20, ",", "", "x"), one(",")),
    "StringSplitV2 blanks": lambda: run_op("StringSplitV2", text(" a  b\t\nc " * 20, " ", "", "x"), one("")),
    "StringSplitV2 long": lambda: run_op("StringSplitV2", text("aaab" * 20, "aaa"), one("aa")),
    "StringNGrams": lambda: run_op(
        "StringNGrams",
        STRINGS,
        np.array([0, 2, 6]),
        separator="+",
        ngram_widths=[1, 3],
        left_pad="<",
        right_pad=">",
        pad_width=-1,
        preserve_short_sequences=False,
    ),
    "UnicodeDecode": lambda: run_op("UnicodeDecodeWithOffsets", STRINGS, input_encoding="UTF-8"),
    "UnicodeTranscode": lambda: run_op(
        "UnicodeTranscode", STRINGS, input_encoding="UTF-8", output_encoding="UTF-16-BE", replacement_char=63
    ),
    "UnicodeEncode": lambda: run_op(
        "UnicodeEncode", np.array([72, 105, 0x1F600, 33], np.int32), np.array([0, 2, 4]), output_encoding="UTF-8"
    ),
    "StringToNumber": lambda: run_op("StringToNumber", NUMBERS),
    "DecodeCSV": lambda: run_op("DecodeCSV", text('1,"a,b"', "2,c", ",d"), [np.array([9], np.int32), text("")]),
    "DecodeRaw": lambda: run_op("DecodeRaw", text("abcd" * 9, "efgh" * 9), out_type=dtypes.int16),
    "DecodePaddedRaw": lambda: run_op("DecodePaddedRaw", text("abc", ""), np.array(8, np.int32), out_type=dtypes.int32),
    "DecodeCompressed ZLIB": lambda: run_op("DecodeCompressed", ZIPPED, compression_type="ZLIB"),
    "DecodeCompressed GZIP": lambda: run_op("DecodeCompressed", GZIPPED, compression_type="GZIP"),
    "ParseExampleV2": lambda: run_op(
        "ParseExampleV2",
        text(example(d=[1, 2], s=[5]), example(d=[3, 4], s=[6, 7])),
        text(),
        text("s"),
        text("d"),
        text(),
        [np.zeros(0, np.int64)],
        num_sparse=1,
        sparse_types=[dtypes.int64],
        ragged_value_types=[],
        ragged_split_types=[],
        dense_shapes=[[2]],
    ),
    "EncodePng, DecodePng": lambda: run_op(
        "DecodePng", run_op("EncodePng", np.arange(60, dtype=np.uint8).reshape(4, 5, 3))
    ),
    "LookupTable": found_in_table,
    "EditDistance": lambda: run_op(
        "EditDistance",
        *(np.stack([np.zeros(9, np.int64), np.arange(9)], 1), np.arange(9), np.array([1, 9])),
        *(np.stack([np.zeros(7, np.int64), np.arange(7)], 1), np.arange(7)[::-1].copy(), np.array([1, 7])),
    ),
    "CTCBeamSearchDecoder": lambda: run_op(
        "CTCBeamSearchDecoder",
        np.random.default_rng(0).random((6, 2, 4), np.float32),
        np.array([6, 5], np.int32),
        beam_width=5,
        top_paths=2,
    ),
    "RandomIndexShuffle": lambda: run_op(
        "RandomIndexShuffle", np.arange(9), np.array([1, 2, 3]), np.array(8), rounds=4
    ),
    "UniformCandidateSampler": lambda: run_op(
        "UniformCandidateSampler",
        np.array([[1], [2]]),
        num_true=1,
        num_sampled=8,
        unique=True,
        range_max=9,
        seed=3,
        seed2=4,
    ),
    "ComputeAccidentalHits": lambda: run_op(
        "ComputeAccidentalHits", np.array([[1, 2], [3, 4]]), np.array([4, 9, 1]), num_true=2
    ),
}


def same(got: Any, want: Any) -> None:
    for a, b in zip(*(v if isinstance(v, list) else [v] for v in (got, want)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", TABLE)
def test_a_kernel_gives_the_same_in_pieces_and_ends_between_them(
    name: str, token: type[Token], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TABLE[name]
    want = run()
    small(monkeypatch)
    token.looks = 0
    same(run(), want)
    pieces_of_all = token.looks
    assert pieces_of_all > 2
    for ends_at in (1, pieces_of_all // 2 + 1, pieces_of_all):
        token.looks, token.ends_at = 0, ends_at
        with pytest.raises(CancelledError):
            run()
        assert token.looks == ends_at, "it went on"


def oracle() -> dict[str, list[dict[str, Any]]]:
    """What TensorFlow gave for ops whose kernels work in pieces."""
    in_pieces = {op for op, specs in load_all_kernels().items() if any(spec.pieces for spec in specs)}
    found: dict[str, list[dict[str, Any]]] = {}
    for family in ORACLES:
        if (oracle_cases.DATA / f"{family}.json.gz").exists():
            for op, cases in oracle_cases.cases_by_op(family).items():
                if op in in_pieces:
                    found.setdefault(op, []).extend(cases)
    return found


def test_what_tensorflow_gives_comes_of_pieces_too(token: type[Token], monkeypatch: pytest.MonkeyPatch) -> None:
    cases = oracle()
    assert len(cases) > 20
    small(monkeypatch)
    never: set[str] = set()
    for op, found in cases.items():
        looked = 0
        for case in found:
            token.looks, token.ends_at = 0, -1
            oracle_cases.check(case)
            if token.looks and "error" not in case:
                looked += 1
                token.looks, token.ends_at = 0, 1
                with pytest.raises(CancelledError):
                    oracle_cases.check(case)
        if not looked:
            never.add(op)
    # Numbers these leave to libraries, which let others run.
    assert never <= {"Bincount", "RaggedBincount", "UniqueV2", "UniqueWithCountsV2"}


def test_without_a_step_nothing_looks() -> None:
    pieces.look()
    assert pieces.listed(np.arange(6).reshape(2, 3)) == [[0, 1, 2], [3, 4, 5]]


ARRAYS = st.lists(st.integers(-5, 5), max_size=30).map(lambda items: np.array(items, np.int64))


@settings(max_examples=examples(60), deadline=None)
@given(values=ARRAYS, size=st.integers(1, 7), data=st.data())
def test_what_kernels_are_made_of(values: Any, size: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "ITEMS", size)
        patch.setattr(pieces, "BLOCK", size)
        patch.setattr(pieces, "BYTES", size)
        assert list(pieces.each(values)) == list(pieces.each(values.tolist())) == values.tolist()
        assert pieces.listed(values) == values.tolist()
        assert (pieces.array_of(values.tolist(), np.float32) == values).all()
        counts = data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
        assert (pieces.repeat(values, np.array(counts, np.int64)) == np.repeat(values, counts)).all()
        assert (pieces.repeat(values, 3) == np.repeat(values, 3)).all()
        at = np.abs(values)
        one_by_one, in_pieces = np.zeros(6, np.int64), np.zeros(6, np.int64)
        np.add.at(one_by_one, at, values)
        pieces.update_at(np.add, in_pieces, at, values)
        assert (one_by_one == in_pieces).all()
        parts = [b"%d" % value for value in values]
        assert pieces.joined(parts, b"; ") == b"; ".join(parts)
        whole = b"".join(parts)
        assert pieces.changed(whole, bytes.upper) == whole.upper()
        assert b"".join(pieces.filled(len(whole), b"-")) == b"-" * len(whole)


@settings(max_examples=examples(80), deadline=None)
@given(
    value=st.floats(width=32),
    fill=st.sampled_from(["", " ", "+", "-", "0", "#"]),
    width=st.integers(-1, 1400),
    precision=st.integers(-1, 1300),
    notation=st.sampled_from(["", "scientific", "shortest"]),
)
def test_long_numbers_are_as_short_ones(value: float, fill: str, width: int, precision: int, notation: str) -> None:
    """Also where there are more digits than any number has, which are made by themselves."""
    attrs: dict[str, Any] = {"fill": fill, "width": width, "precision": precision}
    if notation:
        attrs[notation] = True
    letter = {"": "f", "scientific": "e", "shortest": "g"}[notation]
    shown = "" if fill == "0" and value - value != 0 else fill
    spec = "%" + shown + (str(width) if width > -1 else "") + (f".{precision}" if precision > -1 else "") + letter
    with pytest.MonkeyPatch.context() as patch:
        for module in (pieces, basic):
            patch.setattr(module, "BYTES", 30)
        assert run_op("AsString", np.array(value, np.float64), **attrs).item() == (spec % value).encode()


def test_what_inflates_to_more_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = text(zlib.compress(bytes(200 << 20), 1))
    monkeypatch.setattr(admission, "free_bytes", lambda: 100 << 20)
    with pytest.raises(ResourceExhaustedError):
        run_op("DecodeCompressed", bomb, compression_type="ZLIB")


@pytest.mark.parametrize("cut", [0, 3, 7])
@pytest.mark.parametrize("kind", ["ZLIB", "GZIP"])
def test_what_ends_too_early_is_no_compressed_string(kind: str, cut: int) -> None:
    made = zlib.compress(b"abc" * 100) if kind == "ZLIB" else gzip.compress(b"abc" * 100)
    if kind == "GZIP" and not cut:
        assert run_op("DecodeCompressed", text(b""), compression_type=kind)[0] == b""
        return
    with pytest.raises(DataLossError):
        run_op("DecodeCompressed", text(made[:cut] if cut < 7 else made[:-cut]), compression_type=kind)


def test_what_is_malformed_everywhere_takes_no_longer_than_it_is_long() -> None:
    looks: list[int] = []
    value = b"\xff" * 200_000
    with pytest.MonkeyPatch.context() as patch:
        # What is decoded is copied first: a window each time, never all that is left.
        seen = pieces.look
        patch.setattr("dtfctl.runtime.kernels.string.unicode.look", lambda: (looks.append(1), seen())[1])
        codes = run_op("UnicodeDecode", text(value), input_encoding="UTF-8")[1]
    assert codes.tolist() == [0xFFFD] * len(value) and len(looks) == len(value)


def long_step() -> tuple[Any, Any]:
    """A step that would take many minutes."""
    graph = tf.Graph()
    with graph.as_default():
        count = 60_000
        places = np.stack([np.zeros(count, np.int64), np.arange(count)], 1)
        made = [
            tf.SparseTensor(places, tf.placeholder_with_default(np.arange(count) % n, [count]), [1, count])
            for n in (7, 11)
        ]
        return graph, tf.edit_distance(*made)


def kernels_running() -> list[str]:
    return [
        frame.f_code.co_name
        for frame in sys._current_frames().values()
        for name in [frame.f_code.co_filename]
        if name.endswith(("kernels/array/search.py", "kernels/pieces.py"))
    ]


def test_a_kernel_ends_soon_after_its_step() -> None:
    graph, distance = long_step()
    with tf.Session(graph=graph) as session:
        with pytest.raises(OpError) as caught:
            session.run(distance, options=config_pb2.RunOptions(timeout_in_ms=500))
        assert isinstance(caught.value, tf.errors.DeadlineExceededError)
        eventually(lambda: not kernels_running())
