"""The text of the CUDA sources for given types, and the list of all that are ever compiled.

A source `NAME.cu` is written for types T (elements), A (sums) and I (indices), which `source_text` defines before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}
_MOVED = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_MATH = {
    "float": {"EXP": "expf", "LOG": "logf", "ROOT": "sqrtf", "POW": "powf"},
    "double": {"EXP": "exp", "LOG": "log", "ROOT": "sqrt", "POW": "pow"},
}
_COMMON_MATH = {"FLOOR": "floorf", "ROUND": "roundf", "QUIET_NAN": "(0.0f / 0.0f)"}
_FLOATS = ("float32", "float64")
_NUMBERS = ("float32", "float64", "int32", "int64")
_MOVES = ("uint8", "uint16", "uint32", "uint64", "pair")
_INDICES = ("int32", "int64")
# Every (T, I) a source may be compiled for.
VARIANTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "gather": tuple((t, i) for t in _MOVES for i in _INDICES),
    "one_hot": tuple((t, i) for t in _MOVES for i in ("uint8", "int8", "int32", "int64")),
    "rows": tuple((t, i) for t in _NUMBERS for i in _INDICES),
    "sparse_apply": tuple((t, i) for t in _FLOATS for i in _INDICES),
    "softmax": tuple((t, i) for t in _FLOATS for i in _INDICES),
    "conv": tuple((t, "int64") for t in _FLOATS),
    "pool": tuple((t, "int64") for t in _NUMBERS),
    "resize": tuple((t, "int64") for t in (*_NUMBERS, "uint8")),
}


def moved_as(dtype: np.dtype[Any]) -> str:
    """Choose the type that stands for elements which are only moved, not computed with: one of the same size."""
    return "pair" if dtype.itemsize == 16 else _MOVED[dtype.itemsize]


@cache
def source_text(name: str, element: str, index: str = "int64") -> str:
    """Write the whole program of a source for these types.

    Args:
        name: of the source, without ".cu".
        element, index: numpy type names, or "pair" for 16-byte elements.

    Raises:
        KeyError: the source is not made for these types.
    """
    if (element, index) not in VARIANTS[name]:
        raise KeyError(f"{name}.cu is not made for {element} and {index}")
    files = resources.files(__package__)
    lines = []
    if element == "pair":
        lines.append("struct Pair { unsigned long long low, high; };")
    c_type = "Pair" if element == "pair" else C_TYPES[element]
    sums = c_type if c_type in _MATH else "long long"
    types = {"T": c_type, "A": sums, "I": C_TYPES[index]}
    lines += [f"typedef {c_name} {key};" for key, c_name in types.items()]
    lines += [f"#define {key} {value}" for key, value in (_COMMON_MATH | _MATH.get(c_type, {})).items()]
    prelude, body = ((files / n).read_text("utf-8") for n in ("prelude.cuh", f"{name}.cu"))
    return "\n".join([*lines, prelude, f'#line 1 "{name}.cu"', body])
