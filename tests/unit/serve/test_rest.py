"""JSON of the REST API, there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import serving_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.serve import questions, rest
from dtfctl.serve.signatures import Port, Signature


def signature(**types: Any) -> Signature:
    ports = tuple(Port(name, f"{name}:0", dtype, None) for name, dtype in types.items())
    return Signature("s", "", ports, (), False)


ONE = signature(x=tf.float32)
TWO = signature(a=tf.int32, b=tf.string)


@pytest.mark.parametrize(
    ("request_", "of", "wanted"),
    [
        ({"instances": [[1, 2.5], [3, 4]]}, ONE, {"x": [[1, 2.5], [3, 4]]}),
        ({"instances": [{"x": 1.0}, {"x": 2.0}]}, ONE, {"x": [1, 2]}),
        ({"inputs": [[1.0]]}, ONE, {"x": [[1]]}),
        ({"inputs": 1.5}, ONE, {"x": 1.5}),
        ({"inputs": {"x": []}}, ONE, {"x": []}),
        (
            {"instances": [{"a": 1, "b": "u"}, {"a": -2, "b": {"b64": "AP8="}}]},
            TWO,
            {"a": [1, -2], "b": [b"u", b"\x00\xff"]},
        ),
        ({"inputs": {"a": [[1], [2]], "b": "é"}}, TWO, {"a": [[1], [2]], "b": "é".encode()}),
    ],
)
def test_inputs_are_read_in_rows_and_in_columns(request_: Any, of: Signature, wanted: Any) -> None:
    found, by_rows = rest.inputs(request_, of)
    assert {name: value.tolist() for name, value in found.items()} == wanted
    assert by_rows == ("instances" in request_)
    types = {port.alias: np.dtype(port.dtype.as_numpy_dtype) for port in of.inputs}
    assert {name: value.dtype for name, value in found.items()} == types


@pytest.mark.parametrize(
    ("request_", "of", "says"),
    [
        ({}, ONE, "either"),
        ({"instances": [1], "inputs": [1]}, ONE, "either"),
        ({"instances": []}, ONE, "not empty"),
        ({"instances": 3}, ONE, "list"),
        ({"instances": [[1], [2, 3]]}, ONE, "one length"),
        ({"instances": ["1"]}, ONE, "has to be a number"),
        ({"instances": [True]}, ONE, "has to be a number"),
        ({"instances": [[1, 2.5], [3, True]]}, ONE, "has to be a number"),
        ({"inputs": {"a": [1, False], "b": "x"}}, TWO, "whole number"),
        ({"instances": [1]}, TWO, "several inputs"),
        ({"instances": [{"a": 1, "b": "x"}, {"a": 1}]}, TWO, "instance 1"),
        ({"inputs": {"a": 1.5, "b": "x"}}, TWO, "whole number"),
        ({"inputs": {"a": 2**31, "b": "x"}}, TWO, "out of the range"),
        ({"inputs": {"a": 1, "b": 2}}, TWO, "string"),
        ({"inputs": {"a": 1, "b": {"b64": "?"}}}, TWO, "base64"),
        ({"inputs": {"a": 1, "b": [["x"], "y"]}}, TWO, "one length"),
    ],
)
def test_what_does_not_fit_is_refused(request_: Any, of: Signature, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        rest.inputs(request_, of)


def test_outputs_are_written_as_they_were_asked_for() -> None:
    one = {"y": np.array([[0.5], [np.inf]], np.float32)}
    assert rest.predictions(one, True) == b'{"predictions":[[0.5],[Infinity]]}'
    assert rest.predictions(one, False) == b'{"outputs":[[0.5],[Infinity]]}'
    two = {"n": np.array([1, 2]), "t_bytes": np.array([b"a", b"\xff"], object)}
    assert rest.predictions(two, True) == (
        b'{"predictions":[{"n":1,"t_bytes":{"b64":"YQ=="}},{"n":2,"t_bytes":{"b64":"/w=="}}]}'
    )
    assert rest.predictions({**two, "z": np.array(True)}, False).endswith(b'"z":true}}')
    with pytest.raises(InvalidArgumentError, match="inputs"):
        rest.predictions({**two, "z": np.array(True)}, True)


def test_numbers_that_json_has_not_are_read_as_tensorflow_serving_reads_them() -> None:
    found = rest.parse(b'{"instances": [NaN, Infinity, -Infinity, 1e400]}')
    values, _ = rest.inputs(found, ONE)
    assert str(values["x"].tolist()) == "[nan, inf, -inf, inf]"
    assert rest.parse(b'{"a": "\\ud800"}') == {"a": "\ud800"}


@pytest.mark.parametrize("words", [b"true", b"false"])
def test_bools_are_looked_for_where_there_may_be_some(words: bytes) -> None:
    body = b'{"instances": [1.5, ' + words + b"]}"
    assert rest.holds_bools(body)
    with pytest.raises(InvalidArgumentError, match="has to be a number"):
        rest.inputs(rest.parse(body), ONE, rest.holds_bools(body))
    assert not rest.holds_bools(b'{"instances": [1.5, 2]}')


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        rest.parse(body)


@pytest.mark.parametrize("example", [{"\ud800": 1}, {"a": [0.5, 10**400]}, {"a": 2**63}])
def test_examples_that_cannot_be_written_are_refused(example: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"feature"):
        rest.examples({"examples": [example]})


def test_examples_have_the_types_of_their_features() -> None:
    sent = rest.examples({"context": {"c": "ctx"}, "examples": [{"i": 1, "f": [1, 2.5], "s": ["x", {"b64": "AA=="}]}]})
    takes = Signature("s", "", (Port("inputs", "i:0", tf.string, (None,)),), (), True)
    (packed,) = questions.examples(takes, sent)["inputs"].tolist()
    feature = tf.train.Example.FromString(packed).features.feature
    assert list(feature["i"].int64_list.value) == [1] and list(feature["f"].float_list.value) == [1.0, 2.5]
    assert list(feature["s"].bytes_list.value) == [b"x", b"\x00"] and list(feature["c"].bytes_list.value) == [b"ctx"]


THEIRS = {
    "PredictRequest": "0a0a0a016d120208031a0173121b0a0178121608011208120208011202080222080000803f000000401a0179",
    "ClassificationRequest": "0a0b0a016d2206737461626c65122512230a110a0f0a0d0a0162120812060a040000c03f120e0a0c0a0a0a01"
    "6112051a030a0105",
    "ClassificationResponse": "0a0e0a0c0a0a0a03636174150000003f12030a016d",
    "RegressionResponse": "0a070a050d0000803e12030a016d",
    "GetModelStatusResponse": "0a0c0802101e1a06080312026e6f",
    "PredictionLog": "32070a050a030a016d",
}
"""What the package tensorflow-serving-api 2.21 writes."""


@pytest.mark.parametrize("name", THEIRS)
def test_messages_are_those_of_tensorflow_serving(name: str) -> None:
    content = bytes.fromhex(THEIRS[name])
    read = getattr(serving_pb2, name).FromString(content)
    assert not list(unknown(read)) and read.SerializeToString(deterministic=True) == content


def unknown(message: Any) -> Any:
    """Set fields that the message does not know, at any depth."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    yield from UnknownFieldSet(message)
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else [value]:
                yield from unknown(one)
