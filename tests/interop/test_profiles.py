"""`tf.profiler` counts, chooses, orders, prints and advises as TensorFlow's does, which reads what ours has written."""

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


STEP = """
from google.protobuf import text_format

x = tf.placeholder(tf.float32, [64, 256], name="x")
with tf.variable_scope("big"):
    big = tf.matmul(x, tf.get_variable("w", [256, 512]), name="y")
with tf.variable_scope("BatchNorm"):
    small = tf.nn.relu(big, name="small")
other = tf.reduce_sum(small, name="other")
NODES = [("big/y", "MatMul", 3000), ("BatchNorm/small", "Relu", 1500), ("other", "Sum", 400)]
NODES.append(("big/w", "VariableV2", 5))


def traced(devices):
    metadata = tf.RunMetadata()
    for device in devices:
        ran = metadata.step_stats.dev_stats.add(device=device)
        start = 1_000_000
        for name, op, spent in NODES:
            node = ran.node_stats.add(node_name=name, all_start_micros=start, op_start_rel_micros=1)
            node.op_end_rel_micros, node.all_end_rel_micros = spent, spent + 2
            node.timeline_label = f"{name} = {op}()"
            memory = node.memory.add(allocator_name="cpu", total_bytes=spent, peak_bytes=spent, live_bytes=spent // 2)
            out = node.output.add(slot=0)
            out.tensor_description.allocation_description.requested_bytes = spent
            start += spent + 10
    return metadata
"""
ADVICE = """
HOST = "/job:worker/replica:0/task:1/device:CPU:0"
every = {name: {} for name in ("ExpensiveOperationChecker", "AcceleratorUtilizationChecker", "OperationChecker")}
for title, metadata, options in [
    ("all", traced([HOST]), every),
    ("nothing ran", None, every),
    ("one checker", traced([HOST]), {"OperationChecker": {}}),
    ("as it is", traced([HOST]), None),
]:
    print("#", title, flush=True)
    more = {} if options is None else {"options": options}
    advice = tf.profiler.advise(tf.get_default_graph(), metadata, **more)
    for name in sorted(advice.checkers):
        print(name, *advice.checkers[name].reports, sep="\\n", flush=True)
profiler = tf.profiler.Profiler(tf.get_default_graph())
profiler.add_step(3, traced([HOST]))
print("# of a Profiler", flush=True)
profiler.advise({"OperationChecker": {}})
"""
WRITES = """
profiler = tf.profiler.Profiler(tf.get_default_graph())
for step in (3, 4):
    profiler.add_step(step, traced(["/job:worker/replica:0/task:1/device:CPU:0"]))
open("saved", "wb").write(profiler.serialize_to_string())
builder = tf.profiler.ProfileOptionBuilder(tf.profiler.ProfileOptionBuilder.time_and_memory())
for figure in ("micros", "float_ops", "bytes"):
    options = builder.select([figure]).with_pprof_output(f"{figure}.pprof").build()
    options |= {"min_bytes": 0, "min_micros": 0}
    profiler.profile_python(options)
"""
READS = """
import gzip
from tensorflow.core.profiler import profile_pb2, tfprof_options_pb2, tfprof_output_pb2
from tensorflow.python.util import _pywrap_tfprof

_pywrap_tfprof.ProfilerFromFile(b"saved")
options = tfprof_options_pb2.OptionsProto(max_depth=99, step=-1, order_by="name", output="none")
for name in ("account_type_regexes", "start_name_regexes", "show_name_regexes"):
    getattr(options, name).append(".*")
options.select.append("micros")


def tell(line, depth=0):
    if line.total_exec_micros:
        print("  " * depth + line.name, line.exec_micros, line.total_exec_micros, line.total_float_ops, flush=True)
    for below in line.children:
        tell(below, depth + 1)


for cmd, kind in ((b"scope", "GraphNodeProto"), (b"op", "MultiGraphNodeProto"), (b"code", "MultiGraphNodeProto")):
    print("#", cmd.decode())
    proto = getattr(tfprof_output_pb2, kind)()
    proto.ParseFromString(_pywrap_tfprof.Profile(cmd, options.SerializeToString()))
    tell(proto)
for figure in ("micros", "float_ops", "bytes"):
    profile = profile_pb2.Profile.FromString(gzip.open(f"{figure}.pprof").read())
    text = profile.string_table
    print("#", *[f"{text[t.type]}/{text[t.unit]}" for t in profile.sample_type])
    functions = {f.id: text[f.name] for f in profile.function}
    places = {l.id: f"{functions[l.line[0].function_id]}:{l.line[0].line}" for l in profile.location}
    for sample in sorted(profile.sample, key=lambda sample: text[sample.label[0].str]):
        if sample.value[1]:
            print(text[sample.label[0].str], *sample.value, places[sample.location_id[-1]])
"""


def told(python: str, front: str, folder: Path, written: str = PROGRAM) -> list[str]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    program = f"{IMPORT[front]}\n{written}"
    ended = subprocess.run(
        [python, "-c", program], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [line.rstrip() for line in ended.stdout.splitlines() if line.strip()]


def test_views_of_a_graph_are_those_of_stock_tensorflow(tensorflow_python: str, tmp_path: Path) -> None:
    stock, ours = told(tensorflow_python, "stock", tmp_path), told(sys.executable, "ours", tmp_path)
    assert not [*difflib.unified_diff(stock, ours, "stock", "ours", n=8)]
    assert sum(line.startswith("#") for line in stock) > 10


def test_advice_is_that_of_stock_tensorflow(tensorflow_python: str, tmp_path: Path) -> None:
    stock, ours = (
        by_title(told(python, front, tmp_path, STEP + ADVICE))
        for python, front in ((tensorflow_python, "stock"), (sys.executable, "ours"))
    )
    assert ours == stock
    assert len(stock) == 5 and any("top 1 operation type: MatMul" in line for line in stock["# all"])


def by_title(lines: list[str]) -> dict[str, list[str]]:
    """Sort the lines below each title: TensorFlow prints its checkers in any order, and lines of its own files."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("#"):
            below = found.setdefault(line, [])
        elif "weak_tensor_ops.py" not in line:
            below.append(line)
    return {title: sorted(below) for title, below in found.items()}


def test_stock_tensorflow_reads_a_profile_that_was_saved(tensorflow_python: str, tmp_path: Path) -> None:
    told(sys.executable, "ours", tmp_path, STEP + WRITES)
    read = by_title(told(tensorflow_python, "stock", tmp_path, READS))
    # Two steps of equal times: TensorFlow shows an average one.
    assert {"big/y 3000 3000 16777216", "BatchNorm/small 1500 1500 0"} <= {line.strip() for line in read["# scope"]}
    assert any(line.startswith("_TFProfRoot 0 4905") for line in read["# op"])
    code = [line.strip() for line in read["# code"]]
    lines = {
        name: next(n for n, line in enumerate(STEP.splitlines(), 2) if f'"{name}"' in line) for name in ("y", "small")
    }
    assert f"<string>:{lines['y']}:<module> 3005 3005 17039361" in code
    assert f"<string>:{lines['small']}:<module> 1500 1500 0" in code
    # And pprof's message, which it has a copy of.
    micros = read["# count/count micros/microseconds"]
    assert f"big/y 1 3000 <string>:<module>:{lines['y']}" in micros and len(micros) == 4
    assert f"big/y 1 16777216 <string>:<module>:{lines['y']}" in read["# count/count float_ops/count"]
    assert f"BatchNorm/small 1 1500 <string>:<module>:{lines['small']}" in read["# count/count bytes/bytes"]
