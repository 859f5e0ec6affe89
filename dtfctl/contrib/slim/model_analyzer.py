"""What a model is made of, in words."""

from __future__ import annotations

from typing import Any

import numpy as np


def tensor_description(var: Any) -> str:
    """Describe a tensor's type and shape: "(float32_ref 3x4)"."""
    name = var.dtype.name
    return f"({name} {'x'.join(str(size) for size in var.get_shape().as_list())})"


def analyze_vars(variables: Any, print_info: bool = False) -> tuple[int, int]:
    """Count the elements and bytes of variables, and print each if asked to."""
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    total, total_bytes = 0, 0
    for var in variables:
        size = int(np.prod(var.get_shape().as_list(), dtype=np.int64))
        total, total_bytes = total + size, total_bytes + size * var.dtype.base_dtype.size
        if print_info:
            bytes_ = size * var.dtype.base_dtype.size
            print(f"{var.name} {tensor_description(var)} [{size}, bytes: {bytes_}]")
    if print_info:
        print(f"Total size of variables: {total}\nTotal bytes of variables: {total_bytes}")
    return total, total_bytes


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """Count the elements of what all ops give, as far as shapes are known, and print each op if asked to."""
    total = 0
    for op in graph.get_operations():
        sizes = [t.get_shape().num_elements() or 0 for t in op.outputs]
        total += sum(sizes)
        if print_info:
            print(f"{op.name}\t->\t{', '.join(tensor_description(t) for t in op.outputs)}\t[{sum(sizes)}]")
    return total
