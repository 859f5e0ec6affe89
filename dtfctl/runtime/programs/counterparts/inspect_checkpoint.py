"""`tensorflow.python.tools.inspect_checkpoint`: what a checkpoint holds, printed."""

from __future__ import annotations

import re

import numpy as np

import dtfctl.runtime as tf


def print_tensors_in_checkpoint_file(
    file_name: str,
    tensor_name: str | None,
    all_tensors: bool,
    all_tensor_names: bool = False,
    count_exclude_pattern: str = "",
) -> None:
    """Print a checkpoint's tensors by name, type and shape, values of one or all, and how many numbers there are.

    Args:
        count_exclude_pattern: a regular expression; tensors whose name has it are not counted.
    """
    reader = tf.train.NewCheckpointReader(file_name)
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if tensor_name and not (all_tensors or all_tensor_names):
        if tensor_name not in shapes:
            print(f"Tensor {tensor_name} not found in checkpoint")
            return
        print(f"tensor: {tensor_name} ({types[tensor_name].name}) {shapes[tensor_name]}")
        print(reader.get_tensor(tensor_name))
    else:
        for name in sorted(shapes):
            print(f"tensor: {name} ({types[name].name}) {shapes[name]}")
            if all_tensors:
                print(reader.get_tensor(name))
    counted = [s for n, s in shapes.items() if not (count_exclude_pattern and re.search(count_exclude_pattern, n))]
    print(f"# Total number of params: {sum(int(np.prod(s)) for s in counted)}")
