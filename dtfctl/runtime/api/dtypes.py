"""`tf.dtypes`."""

from __future__ import annotations

from dtfctl.runtime.framework.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_ as bool,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from dtfctl.runtime.ops.math_ops import (
    cast,
    complex,
    saturate_cast,
)
from dtfctl.runtime.ops.op_defs.string import as_string
