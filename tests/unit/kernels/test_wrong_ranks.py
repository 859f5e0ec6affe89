"""An argument of a rank its op does not take is the sender's fault, and the answer names it as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from tests.support.interpreter import run_op

VECTOR = np.ones(2, np.int32)
SCALAR = np.int32(1)
ROWS = np.ones((2, 3), np.float32)
IMAGE = np.ones((1, 2, 2, 1), np.float32)
POOL = {"padding": b"VALID"}
SEQUENCE = np.array([0, 1, 2])

CASES: dict[str, Callable[[], Any]] = {
    "MaxPoolV2": lambda: run_op("MaxPoolV2", IMAGE, SCALAR, SCALAR, **POOL),
    "MaxPoolV2, nested": lambda: run_op("MaxPoolV2", IMAGE, np.ones((4, 2), np.int32), np.ones(4, np.int32), **POOL),
    "MaxPoolGradV2": lambda: run_op("MaxPoolGradV2", IMAGE, IMAGE, IMAGE, SCALAR, SCALAR, **POOL),
    "MaxPoolGradGradV2": lambda: run_op("MaxPoolGradGradV2", IMAGE, IMAGE, IMAGE, SCALAR, SCALAR, **POOL),
    "FractionalAvgPoolGrad": lambda: run_op("FractionalAvgPoolGrad", np.int64(1), IMAGE, SEQUENCE, SEQUENCE),
    "FractionalAvgPoolGrad, nested": lambda: run_op(
        "FractionalAvgPoolGrad", np.ones((4, 1), np.int64), IMAGE, SEQUENCE, SEQUENCE
    ),
    "SegmentSumV2": lambda: run_op("SegmentSumV2", ROWS, VECTOR, np.array([2, 2])),
    "SparseSegmentMeanGradV2": lambda: run_op("SparseSegmentMeanGradV2", ROWS, VECTOR, VECTOR, VECTOR),
    "SparseSegmentSqrtNGradV2": lambda: run_op("SparseSegmentSqrtNGradV2", ROWS, VECTOR, VECTOR, VECTOR),
    "QuantizeAndDequantizeV3": lambda: run_op(
        "QuantizeAndDequantizeV3", ROWS, np.float32(0), np.float32(1), np.array([8, 8], np.int32)
    ),
    "ImageProjectiveTransformV3": lambda: run_op(
        "ImageProjectiveTransformV3",
        IMAGE,
        np.ones((1, 8), np.float32),
        np.array([2, 2], np.int32),
        np.ones(2, np.float32),
        interpolation=b"NEAREST",
    ),
    "UnicodeEncode": lambda: run_op(
        "UnicodeEncode", np.array([65, 66], np.int32), np.array([[0, 1], [1, 2]]), output_encoding=b"UTF-8"
    ),
    "UnicodeEncode, scalar": lambda: run_op(
        "UnicodeEncode", np.array([65, 66], np.int32), np.int64(5), output_encoding=b"UTF-8"
    ),
    "StringNGrams": lambda: run_op(
        "StringNGrams",
        np.array([b"a", b"b"], object),
        np.int64(0),
        separator=b" ",
        ngram_widths=[1],
        left_pad=b"",
        right_pad=b"",
        pad_width=0,
        preserve_short_sequences=False,
    ),
    "RFFTND": lambda: run_op(
        "RFFTND", np.float32(1), np.ones(1, np.int32), np.zeros(1, np.int32), Tcomplex=np.complex64
    ),
    "FFTND": lambda: run_op("FFTND", np.complex64(1), np.ones(1, np.int32), np.zeros(1, np.int32)),
}


@pytest.mark.parametrize("call", CASES.values(), ids=CASES)
def test_the_argument_is_invalid(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


def test_a_region_that_is_no_file_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        run_op("ImmutableConst", dtype=np.float32, shape=(2,), memory_region_name=b"no such file")


def test_a_scalar_is_padded_by_nothing_whatever_the_value() -> None:
    assert run_op("PadV2", np.int32(3), np.zeros((0, 2), np.int32), np.ones((2, 2), np.int32)) == 3
