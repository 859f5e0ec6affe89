"""Variants that travel between tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.framework.tensor_codec import decode_variant, encode_variant
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.control.tensor_list import TensorList
from dtfctl.runtime.kernels.control.tensor_list_wire import TENSOR_LIST
from dtfctl.runtime.kernels.dataset.optional import Optional
from tests.support.examples import examples


@pytest.mark.parametrize(
    "value",
    [
        TensorList(dtypes.float32, TensorShape([None, 2])),
        TensorList(dtypes.float32, TensorShape([2]), [np.ones(2, np.float32), None, np.zeros(2, np.float32)], 300),
        TensorList(dtypes.int64, TensorShape(None), [None] * 200),
        TensorList(dtypes.string, TensorShape([]), [np.array(b"abc", object)]),
    ],
    ids=repr,
)
def test_a_tensor_list_arrives_as_it_was(value: TensorList) -> None:
    proto = tensor_pb2.VariantTensorDataProto.FromString(encode_variant(value).SerializeToString())
    got = decode_variant(proto)
    assert isinstance(got, TensorList)
    assert got.element_dtype is value.element_dtype
    assert got.element_shape.dims_or_none == value.element_shape.dims_or_none
    assert got.max_num_elements == value.max_num_elements
    for mine, theirs in zip(got.items.to_list(), value.items.to_list(), strict=True):
        assert (mine is None) == (theirs is None)
        assert mine is None or mine.tolist() == theirs.tolist()


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=40))
def test_malformed_tensor_lists_are_refused(metadata: bytes) -> None:
    try:
        got = decode_variant(tensor_pb2.VariantTensorDataProto(type_name=TENSOR_LIST, metadata=metadata))
    except OpError as e:
        assert isinstance(e, InvalidArgumentError)
    else:
        assert len(got) <= len(metadata)


def test_variants_of_unknown_types_are_passed_on() -> None:
    proto = tensor_pb2.VariantTensorDataProto(type_name="int", metadata=b"\x03\x00\x00\x00")
    assert encode_variant(decode_variant(proto)) == proto


def test_optionals_add_and_make_zeros() -> None:
    one: Any = Optional([np.array([1.0, 2.0], np.float32)], [dtypes.float32])
    none: Any = Optional(None, [dtypes.float32])
    assert one.zeros_like_variant().components[0].tolist() == [0.0, 0.0]
    assert none.zeros_like_variant().components is None
    assert one.add_variant(one).components[0].tolist() == [2.0, 4.0]
    assert none.add_variant(none).components is None
    with pytest.raises(InvalidArgumentError, match="one has a value and the other doesn't"):
        one.add_variant(none)
