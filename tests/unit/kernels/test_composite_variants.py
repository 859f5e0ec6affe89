"""Composite tensors inside variants, as tf.data and map functions of TensorFlow 2 carry them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import type_spec_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor

KINDS = type_spec_pb2.TypeSpecProto.TypeSpecClass


def metadata(kind: Any) -> bytes:
    out = type_spec_pb2.CompositeTensorVariantMetadata()
    out.type_spec_proto.type_spec_class = kind
    return out.SerializeToString()


RAGGED, SPARSE = metadata(KINDS.RAGGED_TENSOR_SPEC), metadata(KINDS.SPARSE_TENSOR_SPEC)
PARTS = [np.int32([1, 2, 3]), np.int64([0, 2, 3])]


def packed() -> Any:
    return tf.raw_ops.CompositeTensorVariantFromComponents(components=PARTS, metadata=RAGGED)


def unpacked(encoded: Any, of: bytes, types: list[Any]) -> Any:
    return tf.raw_ops.CompositeTensorVariantToComponents(encoded=encoded, metadata=of, Tcomponents=types)


def test_parts_come_back_also_after_travelling() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        encoded = packed()
        for source in (encoded, tf.placeholder_with_default(encoded, ())):
            got = session.run(unpacked(source, RAGGED, [tf.int32, tf.int64]))
            for value, want in zip(got, PARTS, strict=True):
                np.testing.assert_array_equal(value, want)
        parsed = tf.parse_tensor(tf.serialize_tensor(encoded), tf.variant)
        np.testing.assert_array_equal(session.run(unpacked(parsed, RAGGED, [tf.int32, tf.int64]))[1], PARTS[1])


def test_the_wire_form_keeps_what_nobody_here_reads() -> None:
    # Field 2 of the type's description: a tree of Python values.
    described = type_spec_pb2.CompositeTensorVariantMetadata.FromString(RAGGED)
    raw = RAGGED[:1] + bytes([RAGGED[1] + 3]) + RAGGED[2:] + b"\x12\x01x"
    assert type_spec_pb2.CompositeTensorVariantMetadata.FromString(raw) != described
    with tf.Graph().as_default(), tf.Session() as session:
        value = tf.raw_ops.CompositeTensorVariantFromComponents(components=PARTS, metadata=raw)
        proto = encode_tensor(session.run(tf.identity(value)), dtypes.variant)
    assert proto.variant_val[0].metadata == raw
    assert decode_tensor(proto).item().metadata == raw


@pytest.mark.parametrize(
    ("of", "types", "message"),
    [
        (SPARSE, [tf.int32, tf.int64], "Expected a SPARSE_TENSOR_SPEC .* contains a RAGGED_TENSOR_SPEC"),
        (RAGGED, [tf.int32] * 3, "Encoded value has 2 tensor components; expected 3 components"),
        (RAGGED, [tf.float32, tf.int64], "Tensor component 0 had dtype DT_INT32; expected dtype DT_FLOAT"),
    ],
)
def test_another_type_is_refused(of: bytes, types: list[Any], message: str) -> None:
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=message),
    ):
        session.run(unpacked(packed(), of, types))


def test_no_composite_tensor() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        other = tf.raw_ops.EmptyTensorMap()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a valid CompositeTensorVariant tensor"):
            session.run(unpacked(other, RAGGED, [tf.int32]))
