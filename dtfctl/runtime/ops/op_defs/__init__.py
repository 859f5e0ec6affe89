"""The table of ops: a module a family, an entry an op; importing this package enters them all.

An op whose shape rule, gradient or function is short has its entry here, its kernel in `runtime/kernels`, and nothing
elsewhere. Ops of which only the signature is short are lines of `framework/signatures`.
"""

from __future__ import annotations

from dtfctl.runtime.ops.op_defs import (
    array,
    binary,
    collective,
    compression,
    control,
    data_flow,
    dataset,
    elementwise,
    image,
    io,
    linalg,
    math,
    nn,
    products,
    quantization,
    ragged,
    random,
    sparse,
    state,
    string,
)

__all__ = [
    "array",
    "binary",
    "collective",
    "compression",
    "control",
    "data_flow",
    "dataset",
    "elementwise",
    "image",
    "io",
    "linalg",
    "math",
    "nn",
    "products",
    "quantization",
    "ragged",
    "random",
    "sparse",
    "state",
    "string",
]
