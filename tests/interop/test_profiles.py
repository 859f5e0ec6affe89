"""`tf.profiler.profile` counts, chooses, orders and prints as TensorFlow's does."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

IMPORT = {
    "stock": "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()",
    "ours": "import dtfctl.runtime as tf",
}
PROGRAM = """
import os

x = tf.placeholder(tf.float32, [16, 32], name="x")
with tf.variable_scope("layer1"):
    w, b = tf.get_variable("w", [32, 64]), tf.get_variable("b", [64])
    hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))
with tf.variable_scope("layer2"):
    y = tf.matmul(hidden, tf.get_variable("w", [64, 8]), name="y")
    tf.get_variable("seen", [], trainable=False)
image = tf.placeholder(tf.float32, [2, 8, 8, 3], name="image")
with tf.variable_scope("conv"):
    filtered = tf.nn.conv2d(image, tf.get_variable("k", [3, 3, 3, 4]), [1, 1, 1, 1], "SAME")
    filtered = tf.nn.max_pool(filtered, 2, 2, "SAME")
total = tf.add(tf.reduce_sum(tf.square(y)), tf.reduce_sum(filtered), name="total")

Builder = tf.profiler.ProfileOptionBuilder
parameters, operations = Builder.trainable_variables_parameter(), Builder.float_operation()
TRIED = {
    "parameters": ("scope", Builder(parameters)),
    "parameters of much": ("scope", Builder(parameters).with_min_parameters(100)),
    "all variables": ("scope", Builder(parameters).with_accounted_types(["Variable.*"])),
    "operations": ("scope", Builder(operations)),
    "operations by input": ("graph", Builder(operations)),
    "operations by type": ("op", Builder(operations)),
    "not deep": ("scope", Builder(operations).with_max_depth(2)),
    "of all": ("scope", Builder(operations).with_max_depth(2).account_displayed_op_only(False).select(["float_ops"])),
    "few types": ("op", Builder(operations).with_max_depth(3)),
    "types of much": ("op", Builder(operations).with_min_float_operations(300)),
    "by name": ("scope", Builder(operations).with_node_names(["layer.*"], hide_name_regexes=[".*/y"])),
    "trimmed": ("scope", Builder(parameters).with_node_names(trim_name_regexes=["layer1.*"])),
    "shown": ("scope", Builder(parameters).with_node_names(show_name_regexes=["conv.*"])),
    "by size": ("scope", Builder(parameters).order_by("params")),
    "both": ("scope", Builder(parameters).select(["params", "float_ops"])),
}


def tell(line, depth=0):
    # Of placeholders TensorFlow counts parameters, too, where all types are accounted for.
    figures = line.float_ops, line.total_float_ops
    if "_trainable" in str(builder.build()["account_type_regexes"]):
        figures = (*figures, line.parameters, line.total_parameters)
    print("  " * depth + line.name, *figures)
    for below in line.children:
        tell(below, depth + 1)


for title, (cmd, builder) in TRIED.items():
    print("#", title)
    builder.with_file_output("report")
    tell(tf.profiler.profile(tf.get_default_graph(), cmd=cmd, options=builder.build()))
    text = open("report").read()
    print(text[text.index("node name |"):].partition("\\n\\n")[0])
"""


def told(python: str, front: str, folder: Path) -> list[str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    program = f"{IMPORT[front]}\n{PROGRAM}"
    ended = subprocess.run(
        [python, "-c", program], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [line.rstrip() for line in ended.stdout.splitlines() if line.strip()]


def test_views_of_a_graph_are_those_of_stock_tensorflow(tensorflow_python: str, tmp_path: Path) -> None:
    stock, ours = told(tensorflow_python, "stock", tmp_path), told(sys.executable, "ours", tmp_path)
    assert not [*difflib.unified_diff(stock, ours, "stock", "ours", n=8)]
    assert sum(line.startswith("#") for line in stock) > 10
