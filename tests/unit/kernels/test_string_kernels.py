"""String kernels, with values computed by TensorFlow 2.21."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.string.hashing import fingerprint64, hash64, siphash
from tests.support.interpreter import run_op


def text(*items: Any) -> np.ndarray:
    return np.array([i if isinstance(i, bytes) else i.encode() for i in items], object)


def one(item: str) -> np.ndarray:
    return np.array(item.encode(), object)


def test_fingerprints_of_every_length_class() -> None:
    # FarmHash's published values of the empty string and of short keys used by TensorFlow's own tests.
    buckets = [fingerprint64(s) % 10 for s in (b"a", b"b", b"c")]
    assert buckets == [9, 2, 2]
    assert [siphash(98765, 132, s) % 10 for s in (b"a", b"b", b"c")] == [4, 2, 8]
    assert [hash64(s) % 10 for s in (b"a", b"b", b"c")] == [8, 0, 7]
    assert len({fingerprint64(b"x" * n) for n in range(200)}) == 200


@pytest.mark.parametrize(
    ("pattern", "rewrite", "want"),
    [
        ("x*", "-", [b"-a-b-c-", b"-", b"-a-b-"]),
        ("(a)(b)?", r"<\2\1>", [b"<ba>c", b"", b"x<a>xbx"]),
        ("[[:alpha:]]+", "W", [b"W", b"", b"W"]),
        ("(?i)A", "", [b"bc", b"", b"xxbx"]),
        ("b$", "!", [b"abc", b"", b"xaxbx"]),
    ],
)
def test_replacing(pattern: str, rewrite: str, want: list[bytes]) -> None:
    got = run_op("RegexReplace", text("abc", "", "xaxbx"), one(pattern), one(rewrite))
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("rewrite", "everywhere", "want"),
    [
        (r"\x", True, b"b"),
        (r"\x", False, b"aba"),
        (r"q\1\z", True, b"qabqa"),
        (r"\2", True, b"aba"),
        ("\\\\", False, b"\\ba"),
    ],
)
def test_a_malformed_rewrite_does_what_re2_does(rewrite: str, everywhere: bool, want: bytes) -> None:
    assert run_op("RegexReplace", text("aba"), one("(a)"), one(rewrite), replace_global=everywhere)[0] == want


@pytest.mark.parametrize(
    ("pattern", "value"),
    [("(a+)+$", b"a" * 200 + b"b"), (r"\s+$", b" " * 2_000_000 + b"x"), ("(x+x+)+y", b"x" * 100_000)],
)
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str, value: bytes) -> None:
    for op, more in (("RegexReplace", [one("")]), ("RegexFullMatch", [])):
        got = run_op(op, text(value), one(pattern), *more)
        assert got[0] == (value if more else False)


def test_a_number_of_a_million_digits_is_read_at_once() -> None:
    for digits in (b"1" * 1_000_000 + b"x", b"0x" + b"1" * 1_000_000 + b"x"):
        with pytest.raises(InvalidArgumentError, match="could not correctly convert"):
            run_op("StringToNumber", text(digits), out_type=dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="could not correctly convert"):
        run_op("StringToNumber", text("1" * 5000), out_type=dtypes.int64)
    got = run_op("StringToNumber", text("0x1p99999", "-0x1p99999", "1" * 5000), out_type=dtypes.float32)
    assert got.tolist() == [np.inf, -np.inf, np.inf]
    got = run_op("StringToNumber", text("+5", "-00012", "0" * 5000 + "7"), out_type=dtypes.int64)
    assert got.tolist() == [5, -12, 7]


@pytest.mark.parametrize("pattern", ["(?=a)", "a++", "(", "[", r"\1"])
def test_patterns_re2_refuses(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid pattern: "):
        run_op("RegexFullMatch", text("a"), one(pattern))


def test_formatting_numbers() -> None:
    values = np.array([1.0, -3.25, 1e10], np.float32)
    assert run_op("AsString", values).tolist() == [b"1.000000", b"-3.250000", b"10000000000.000000"]
    assert run_op("AsString", values, precision=1, width=7, fill="0").tolist()[:2] == [b"00001.0", b"-0003.2"]
    assert run_op("AsString", values, shortest=True).tolist() == [b"1", b"-3.25", b"1e+10"]
    with pytest.raises(InvalidArgumentError, match="precision not supported for datatype int32"):
        run_op("AsString", np.array([1], np.int32), precision=2)


def test_splitting() -> None:
    indices, values, shape = run_op("StringSplitV2", text("a  b", "", " c "), one(""))
    assert indices.tolist() == [[0, 0], [0, 1], [2, 0]] and values.tolist() == [b"a", b"b", b"c"]
    assert shape.tolist() == [3, 2]
    assert run_op("StringSplit", text("a,b,,c"), one(","), skip_empty=False)[1].tolist() == [b"a", b"b", b"", b"c"]


def test_substrings_by_byte_and_by_character() -> None:
    two, one = np.array(1, np.int32), np.array(2, np.int32)
    assert run_op("Substr", text("héllo"), two, one, unit="UTF8_CHAR").tolist() == ["él".encode()]
    assert run_op("Substr", text("hello"), np.array(-3, np.int32), one).tolist() == [b"ll"]
    with pytest.raises(InvalidArgumentError, match="pos 9 out of range for string b'hello' at index 0"):
        run_op("Substr", text("hello"), np.array(9, np.int32), one)


def test_unicode() -> None:
    splits, codes, starts = run_op("UnicodeDecodeWithOffsets", text("é", b"a\xffb"), input_encoding="UTF-8")
    assert splits.tolist() == [0, 1, 4] and codes.tolist() == [233, 97, 0xFFFD, 98] and starts.tolist() == [0, 0, 1, 2]
    assert run_op("UnicodeScript", np.array([65, 0x3042, 0x5D0], np.int32)).tolist() == [25, 20, 19]
    with pytest.raises(InvalidArgumentError, match="Invalid formatting on input string"):
        run_op("UnicodeTranscode", text(b"\xff"), input_encoding="UTF-8", output_encoding="UTF-8", errors="strict")


def test_joining() -> None:
    grid = np.array([[b"a", b"b"], [b"c", b"d"]], object)
    assert run_op("ReduceJoin", grid, np.array([0], np.int32), separator="+").tolist() == [b"a+c", b"b+d"]
    assert run_op("ReduceJoin", grid, np.array([0, 1], np.int32)).item() == b"acbd"
    assert run_op("StringJoin", [text("a", "b"), one("x")], separator="-").tolist() == [b"a-x", b"b-x"]


def test_numbers_from_text() -> None:
    got = run_op("StringToNumber", text(" 1.5 ", "-2", "1e400"), dtypes={"out_type": dtypes.float32})
    assert got.tolist() == [1.5, -2.0, np.inf]
    with pytest.raises(InvalidArgumentError, match=r"could not correctly convert string: 1\.5"):
        run_op("StringToNumber", text("1.5"), dtypes={"out_type": dtypes.int32})


def test_ngrams() -> None:
    grams, splits = run_op(
        "StringNGrams",
        text("a", "b", "c"),
        np.array([0, 2, 3]),
        separator="|",
        ngram_widths=[2],
        left_pad="L",
        right_pad="R",
        pad_width=1,
        preserve_short_sequences=False,
    )
    assert grams.tolist() == [b"L|a", b"a|b", b"b|R", b"L|c", b"c|R"] and splits.tolist() == [0, 3, 5]


def test_ngrams_of_a_scalar_are_those_of_one_token() -> None:
    attrs = {"left_pad": "L", "right_pad": "R", "pad_width": 1, "preserve_short_sequences": True}
    splits = np.array([0, 1], np.int32)
    grams, rows = run_op("StringNGrams", one("a b"), splits, separator=" ", ngram_widths=[1], **attrs)
    assert grams.tolist() == [b"a b"] and rows.tolist() == [0, 1]
    grams, _ = run_op("StringNGrams", one("a b"), splits, separator=" ", ngram_widths=[9], **attrs)
    assert grams.tolist() == [b"L a b R"]
