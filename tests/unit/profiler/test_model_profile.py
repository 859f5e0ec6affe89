"""`tf.profiler`: what a graph holds and what its nodes took, and `tf.profiler.experimental`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl import runtime as tf
from dtfctl.protocol import xplane_pb2
from dtfctl.runtime.steps import recording

Builder = tf.profiler.ProfileOptionBuilder


@pytest.fixture(scope="module")
def traced() -> tuple[tf.Graph, Any]:
    """A small model, and the metadata of a step that trained it."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, 8], name="x")
        with tf.variable_scope("layer1"):
            w = tf.get_variable("w", [8, 16], initializer=tf.ones_initializer())
            b = tf.get_variable("b", [16], initializer=tf.zeros_initializer())
            hidden = tf.nn.relu(tf.matmul(x, w) + b)
        with tf.variable_scope("layer2"):
            last = tf.matmul(hidden, tf.get_variable("w", [16, 2], initializer=tf.ones_initializer()), name="y")
        tf.get_variable("step", [], trainable=False, initializer=tf.zeros_initializer())
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(last))
        metadata = tf.RunMetadata()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            session.run(step, {x: np.ones((4, 8), "f4")}, options=options, run_metadata=metadata)
    return graph, metadata


def walk(proto: Any) -> Iterator[Any]:
    yield proto
    for child in proto.children:
        yield from walk(child)


def test_parameters_are_those_of_trainable_variables_by_scope(
    traced: tuple[tf.Graph, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    root = tf.profiler.profile(traced[0])
    assert root.name == "_TFProfRoot" and root.total_parameters == 8 * 16 + 16 + 16 * 2
    found = {place.name: (place.parameters, place.total_parameters) for place in walk(root)}
    assert found == {
        "_TFProfRoot": (0, 176),
        "layer1": (0, 144),
        "layer1/b": (16, 16),
        "layer1/w": (128, 128),
        "layer2": (0, 32),
        "layer2/w": (32, 32),
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("Profile:") + 1 : lines.index("Profile:") + 5] == [
        "node name | # parameters",
        "_TFProfRoot (--/176 params)",
        "  layer1 (--/144 params)",
        "    layer1/b (16, 16/16 params)",
    ]
    assert "    layer1/w (8x16, 128/128 params)" in lines


def test_float_operations_use_the_shapes_that_a_step_had(traced: tuple[tf.Graph, Any]) -> None:
    options = Builder(Builder.float_operation()).with_empty_output().build()
    without = tf.profiler.profile(traced[0], cmd="op", options=options)
    assert "MatMul" not in {line.name for line in walk(without)}, "the size of the batch is not known"
    root = tf.profiler.profile(traced[0], traced[1], cmd="op", options=options)
    first = root.children[0]
    products = 2 * 4 * 8 * 16 + 2 * 4 * 16 * 2
    assert first.name == "MatMul" and first.float_ops >= products
    # Each line is within the one before, and its total what is left.
    assert root.total_float_ops == first.total_float_ops == first.float_ops + first.children[0].total_float_ops
    by_name = {node.name: node.float_ops for node in first.graph_nodes}
    assert by_name["layer1/MatMul"] == 2 * 4 * 8 * 16 and by_name["layer2/y"] == 2 * 4 * 16 * 2


def test_times_and_memory_are_those_of_the_traced_step(traced: tuple[tf.Graph, Any], tmp_path: Path) -> None:
    file = tmp_path / "report"
    options = Builder(Builder.time_and_memory(min_micros=0, min_bytes=0)).with_file_output(str(file)).build()
    root = tf.profiler.profile(traced[0], traced[1], cmd="scope", options=options)
    ran = [node for device in traced[1].step_stats.dev_stats for node in device.node_stats]
    places = {place.name: place for place in walk(root)}
    graph_names = {op.name for op in traced[0].get_operations()}
    expected = sum(max(node.op_end_rel_micros, 1) for node in ran if node.node_name in graph_names)
    assert root.total_exec_micros == expected > 0
    assert places["layer1"].total_exec_micros <= root.total_exec_micros
    relu = places["layer1/Relu"]
    assert relu.requested_bytes == 4 * 16 * 4 and relu.run_count == 1 and list(relu.devices)
    assert places["layer1"].children[0].total_exec_micros >= places["layer1"].children[-1].total_exec_micros
    assert "total execution time" in file.read_text()
    only = Builder(options).with_empty_output().with_node_names(show_name_regexes=["layer1.*"]).build()
    chosen = tf.profiler.profile(traced[0], traced[1], options=only)
    assert {place.name.split("/")[0] for place in walk(chosen)} == {"_TFProfRoot", "layer1"}
    assert chosen.total_exec_micros < root.total_exec_micros


def test_the_graph_view_follows_inputs(traced: tuple[tf.Graph, Any]) -> None:
    options = Builder().with_empty_output().with_max_depth(10_000).select(["occurrence"]).build()
    root = tf.profiler.profile(traced[0], traced[1], cmd="graph", options=options)
    places = {place.name: place for place in walk(root)}
    assert places.keys() - {"_TFProfRoot"} == {op.name for op in traced[0].get_operations()}
    for place in places.values():
        if place.name != "_TFProfRoot":
            sources = {tensor.op.name for tensor in traced[0].get_operation_by_name(place.name).inputs}
            assert {child.name for child in place.children} <= sources


def test_the_view_by_code_follows_calls(capsys: pytest.CaptureFixture[str]) -> None:
    def layer(size: int) -> Any:
        return tf.get_variable(f"w{size}", [size, 4])

    with tf.Graph().as_default() as graph:
        layer(3)
        layer(5)
    root = tf.profiler.profile(graph, cmd="code")
    lines = {line.name.split(":")[2]: line for line in walk(root) if line.name.startswith("test_model_profile.py")}
    assert root.total_parameters == 32 and lines["layer"].parameters in (12, 20)
    # Two calls are two lines of the caller, and one below each.
    callers = [line for line in walk(root) if line.name.endswith(":test_the_view_by_code_follows_calls")]
    assert [line.total_parameters for line in callers] == [12, 20]
    assert [[below.parameters for below in line.children] for line in callers] == [[12], [20]]
    assert [node.name for node in callers[1].children[0].graph_nodes if node.parameters] == ["w5"]
    assert ":layer (5x4, 20/20 params)" in capsys.readouterr().out


def test_steps_that_were_added_are_averaged_or_looked_at_alone(traced: tuple[tf.Graph, Any]) -> None:
    graph, metadata = traced
    profiler = tf.profiler.Profiler(graph)
    twice = tf.RunMetadata()
    twice.CopyFrom(metadata)
    for device in twice.step_stats.dev_stats:
        for node in device.node_stats:
            node.op_end_rel_micros = 3 * max(node.op_end_rel_micros, 1)
    profiler.add_step(1, metadata)
    profiler.add_step(2, twice)
    base = Builder(Builder.time_and_memory(0, 0)).with_empty_output()
    one, two, both = (
        profiler.profile_operations(base.with_step(step).build()).total_exec_micros for step in (1, 2, -1)
    )
    assert two == 3 * one and abs(both - 2 * one) <= len(graph.get_operations())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Step 7 was not added"):
        profiler.profile_graph(base.with_step(7).build())


def test_what_is_not_there_is_refused(traced: tuple[tf.Graph, Any]) -> None:
    graph, metadata = traced
    with pytest.raises(tf.errors.InvalidArgumentError, match="unknown cmd: tree"):
        tf.profiler.profile(graph, cmd="tree")
    for wrong, said in (
        ({"order_by": "luck"}, "order_by"),
        ({"maximum": 3}, "maximum"),
        ({"select": ["x"]}, "select"),
        ({"hide_name_regexes": ["("]}, "hide_name_regexes"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=said):
            tf.profiler.profile(graph, options={**Builder.time_and_memory(), **wrong})
    with pytest.raises(tf.errors.UnimplementedError, match="png"):
        tf.profiler.profile(graph, metadata, options={**Builder.time_and_memory(), "output": "png:outfile=x"})


def test_a_timeline_has_arrows_between_nodes_and_what_they_hold(traced: tuple[tf.Graph, Any], tmp_path: Path) -> None:
    file = tmp_path / "timeline.json"
    tf.profiler.profile(*traced, options=Builder(Builder.time_and_memory()).with_timeline_output(str(file)).build())
    lines = json.loads(file.read_text())["traceEvents"]
    starts = {line["id"]: line["name"] for line in lines if line["ph"] == "s"}
    ends = {line["id"]: line["name"] for line in lines if line["ph"] == "f"}
    assert starts == ends and "layer1/Relu" in starts.values()
    shown = tf.train.Timeline(traced[1].step_stats).generate_chrome_trace_format(show_dataflow=False, show_memory=True)
    kinds = [line["ph"] for line in json.loads(shown)["traceEvents"]]
    assert "s" not in kinds and kinds.count("N") == kinds.count("D") and kinds.count("C") == 2 * kinds.count("N") > 0


def test_what_a_process_does_is_recorded_into_a_folder_for_tensorboard(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        total = tf.reduce_sum(tf.ones([4]), name="total")
        tf.profiler.experimental.start(str(tmp_path))
        with pytest.raises(tf.errors.AlreadyExistsError):
            tf.profiler.experimental.start(str(tmp_path))
        with tf.profiler.experimental.Trace("mine", number=3):
            session.run(total)
        tf.profiler.experimental.stop()
    assert recording.ACTIVE is None
    (file,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    (plane,) = xplane_pb2.XSpace.FromString(file.read_bytes()).planes
    names = {item.name for item in plane.event_metadata.values()}
    assert {"mine#number=3#", "run total:0"} <= names
    with pytest.raises(tf.errors.UnavailableError):
        tf.profiler.experimental.stop()
    with tf.Graph().as_default(), tf.Session() as session, tf.profiler.experimental.Profile(str(tmp_path / "other")):
        session.run(tf.ones([2], name="again"))
    assert recording.ACTIVE is None and [*(tmp_path / "other").glob("plugins/profile/*/*.xplane.pb")]


def test_advice_names_what_takes_the_time_and_checkers_that_are_not_there_are_refused(
    traced: tuple[tf.Graph, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    advice = tf.profiler.advise(*traced)
    assert sorted(advice.checkers) == ["AcceleratorUtilizationChecker", "ExpensiveOperationChecker", "OperationChecker"]
    assert advice.checkers["ExpensiveOperationChecker"].reports[0].startswith("top 1 operation type: ")
    assert "\nExpensiveOperationChecker:\ntop 1 operation type: " in capsys.readouterr().out
    wrong: list[dict[str, dict[str, bool]]] = [{"Another": {}}, {"OperationChecker": {"deep": True}}]
    for options in wrong:
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.profiler.advise(*traced, options=options)


def test_a_gpu_is_judged_by_the_part_of_the_step_in_which_it_computes() -> None:
    with tf.Graph().as_default() as graph:
        image = tf.placeholder(tf.float32, [1, 8, 8, 3])
        tf.nn.conv2d(image, tf.ones([3, 3, 3, 4]), [1, 1, 1, 1], "SAME", name="conv")
    metadata = tf.RunMetadata()
    gpu = metadata.step_stats.dev_stats.add(device="/job:worker/replica:0/task:0/device:GPU:0")
    for name, start, spent in (("ones", 1000, 30), ("conv", 1070, 30)):
        gpu.node_stats.add(node_name=name, all_start_micros=start, op_end_rel_micros=spent, all_end_rel_micros=spent)
    found = tf.profiler.advise(graph, metadata).checkers
    device = "/job:worker/replica:0/task:0/device:gpu:0"
    assert [*found["AcceleratorUtilizationChecker"].reports] == [f"device: {device} utilization: 0.60"]
    nhwc = "Found operation using NHWC data_format on GPU. Maybe NCHW is faster."
    assert [*found["OperationChecker"].reports] == [nhwc]


def test_pprof_takes_the_view_by_code_of_one_figure(traced: tuple[tf.Graph, Any], tmp_path: Path) -> None:
    builder = Builder(Builder.time_and_memory()).with_pprof_output(str(tmp_path / "p"))
    for cmd, options in (("code", builder.build()), ("scope", builder.select(["micros"]).build())):
        with pytest.raises(tf.errors.InvalidArgumentError, match="pprof takes the view by code"):
            tf.profiler.profile(*traced, cmd=cmd, options=options)
    assert not (tmp_path / "p").exists()
