"""Text to numbers, with TensorFlow's rules: surrounding white space is fine, anything else that is left is not."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_to

_DECIMAL = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SPECIAL = re.compile(rb"[+-]?(inf(inity)?|nan)", re.IGNORECASE)
_HEX = re.compile(rb"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)([pP][+-]?\d+)?")
_INTEGER = re.compile(rb"[+-]?\d+")
_UNSIGNED = re.compile(rb"\d+")
_MOST_DIGITS = 20
_SPACE = b" \t\n\v\f\r"


def parse_number(text: bytes, dtype: DType) -> Any:
    """Parse a number; None when `text` holds none that fits `dtype`."""
    body = text.strip(_SPACE)
    if dtype.is_floating:
        if _DECIMAL.fullmatch(body) or _SPECIAL.fullmatch(body):
            value = float(body)
        elif _HEX.fullmatch(body):
            try:
                value = float.fromhex(body.decode())
            except OverflowError:
                value = -math.inf if body.startswith(b"-") else math.inf
        else:
            return None
        with np.errstate(over="ignore"):
            return dtype.np.type(value)
    if not (_UNSIGNED if dtype.is_unsigned else _INTEGER).fullmatch(body):
        return None
    digits = body.lstrip(b"+-").lstrip(b"0")
    if len(digits) > _MOST_DIGITS:  # Python refuses to read some thousands
        return None
    number = int(digits or b"0") * (-1 if body.startswith(b"-") else 1)
    return number if dtype.min <= number <= dtype.max else None


@register_kernel("StringToNumber", pieces=True)
def string_to_number(k: KernelBuild) -> Kernel:
    dtype = k.dtype("out_type")

    def convert(text: bytes) -> Any:
        value = parse_number(text, dtype)
        if value is None:
            raise InvalidArgumentError(
                f"StringToNumberOp could not correctly convert string: {text.decode('utf-8', 'replace')}"
            )
        return value

    return lambda x: map_to(convert, x, dtype.np)
