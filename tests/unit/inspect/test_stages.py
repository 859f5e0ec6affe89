"""What is shown of a graph: its stages, the tensors between tasks, trees and pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from google.protobuf import json_format, text_format

import dtfctl.runtime as tf
from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.operator.graphs import GraphView, of_file
from dtfctl.protocol import graph_pb2, graphs_pb2, meta_graph_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnauthenticatedError
from dtfctl.runtime.inspect.dot import dot
from dtfctl.runtime.inspect.sources import Source, Step, from_file
from dtfctl.runtime.inspect.stages import Stage, change, shapes_of, transfers
from dtfctl.runtime.inspect.text import overview, tree
from dtfctl.runtime.services.graph_service import GraphService
from tests.support.clusters import InProcessCluster


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training step: weights at the ps, what is computed at the worker."""
    folder = tmp_path_factory.mktemp("graph")
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            weights = tf.Variable(np.ones((8, 8), "f4"), name="weights")
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [None, 8], name="x")
            with tf.name_scope("model"):
                y = tf.multiply(tf.matmul(x, weights, name="product"), tf.constant(2.0) * 3.0, name="y")
            loss = tf.reduce_mean(y, name="loss")
            tf.train.GradientDescentOptimizer(0.3).minimize(loss, name="train")
        tf.train.write_graph(graph.as_graph_def(), str(folder), "g.pb", as_text=False)
        tf.train.write_graph(graph.as_graph_def(), str(folder), 'a "quoted".pbtxt', as_text=True)
    return folder / "g.pb"


def by_name(found: list[Stage]) -> dict[str, Stage]:
    return {stage.name: stage for stage in found}


def test_each_stage_of_a_training_step(file: Path) -> None:
    source = from_file(file, {})
    found = by_name(source.stages(Step(("x:0",), ("loss:0",), ("train",))))
    given, placed, pruned = found["given"], found["placed"], found["pruned"]
    assert given.nodes.keys() == {node.name for node in source.graph.node}
    assert given.nodes["weights"].types == "float32[8,8]" and given.nodes["x"].types == "float32[?,8]"
    assert placed.tasks() == ["ps/0", "worker/0"]
    # Nobody needs the initial value in this step.
    assert "weights/Assign" in change(placed, pruned).removed
    assert found["fold constants"].nodes["model/mul"].types == "6.0"
    parts = found["partitioned"]
    crossed = {(pair.source, pair.target, pair.tensor) for pair in transfers(parts)}
    assert ("ps/0", "worker/0", "weights/read:0") in crossed
    assert any(source == "worker/0" and "gradients/" in tensor for source, _, tensor in crossed)
    assert all(pair.send in parts.nodes and pair.receive in parts.nodes for pair in transfers(parts))
    assert len([node for node in parts.nodes.values() if node.op == "_Send" and node.other == "the client"]) == 1
    rows = {name: (nodes, why, did) for name, nodes, why, did in overview(list(found.values()))}
    assert rows["pruned"][2].startswith("-") and "ps/0" in rows["partitioned"][0]
    assert "only what the step's fetches" in rows["pruned"][1]
    assert "model/mul: Mul -> Const" in rows["fold constants"][2]
    assert rows["choose branches"][2] == ""


def test_shapes_are_told_in_every_stage_and_of_what_is_received(file: Path) -> None:
    found = by_name(from_file(file, {}).stages(Step(("x:0",), ("loss:0",), ("train",))))
    assert {stage.nodes["model/product"].types for stage in found.values()} == {"float32[?,8]"}
    parts = found["partitioned"]
    (weights,) = [pair for pair in transfers(parts) if pair.tensor == "weights/read:0"]
    assert parts.nodes[weights.receive].types == weights.types == "float32[8,8]"
    # As many digits as its type has.
    assert found["given"].nodes["train/learning_rate"].types == "0.3"
    # Ops that nobody knows have no shapes, and do not hide the rest.
    assert shapes_of(graph_pb2.GraphDef(node=[graph_pb2.NodeDef(name="a", op="NobodyKnows")])) == {}


def test_one_is_not_told_as_several(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
        one = tf.Variable(1.0, name="one")
        with tf.device("/job:worker/task:0"):
            tf.negative(one, name="two")
        (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    stages = from_file(tmp_path / "g.pb", {}).stages(Step((), ("two:0",)))
    told = tree(stages[-1])
    assert "1 Send/Receive pair, each an edge that crosses from task to task:" in told
    assert "-> one/read_S" in told[-1] and "one/read:0" in told[-1]
    assert "├─ two  Neg  float32[]  <- one/read_S1" in told and "worker/0: 1 node" in tree(stages[0])


def test_a_tree_has_every_node_once_or_the_scope_that_holds_it(file: Path) -> None:
    parts = by_name(from_file(file, {}).stages(Step((), (), ("train",))))["partitioned"]
    whole = tree(parts)
    for node in parts.nodes.values():
        last = node.name.rpartition("/")[2]
        assert any(f"─ {last}  {node.op}" in line for line in whole), node
    summed = "\n".join(tree(parts, depth=1))
    assert "─ gradients/  " in summed and "BroadcastGradientArgs  " not in summed
    below = "\n".join(tree(parts, scope="model"))
    assert "─ product  MatMul" in below and "gradients" not in below.split("Send/Receive pair")[0]
    assert "learning_rate" not in below


def test_a_picture_has_a_box_a_task_and_an_edge_a_transfer(file: Path) -> None:
    source = from_file(file.parent / 'a "quoted".pbtxt', {})
    parts = by_name(source.stages(Step((), (), ("train",))))["partitioned"]
    drawn = dot(parts, source.name)
    assert 'label="ps/0"' in drawn and 'label="worker/0"' in drawn and '\\"quoted\\"' in drawn
    assert drawn.count('color="#c62828", fontcolor') == len(transfers(parts))
    closed = dot(parts, source.name, depth=1)
    assert "nodes:" in closed and len(closed) < len(drawn)


def test_a_file_alone_runs_all_that_it_does_on_the_tasks_it_is_given(file: Path) -> None:
    source = from_file(file, {"ps": 1, "worker": 3})
    assert source.master == "/job:worker/replica:0/task:0" and len(source.devices) == 4
    assert "train" in source.longest().targets
    (file.parent / "bad.pb").write_bytes(b"\x0a\xff\xff")
    with pytest.raises(InvalidArgumentError, match="is no graph"):
        from_file(file.parent / "bad.pb", {})


def test_a_graph_is_known_by_what_is_in_the_file(file: Path, tmp_path: Path) -> None:
    graph = from_file(file, {}).graph
    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph)
    meta.meta_info_def.tensorflow_version = "1.15.0"
    meta.meta_info_def.tags.append("serve")
    saved = meta_graph_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[meta])
    (tmp_path / "export").mkdir()
    for number, message in enumerate((graph, meta, saved)):
        for form, data in (
            ("binary", message.SerializeToString()),
            ("text", text_format.MessageToString(message).encode()),
            ("json", json_format.MessageToJson(message).encode()),
        ):
            (tmp_path / f"{number}-{form}").write_bytes(data)
            assert from_file(tmp_path / f"{number}-{form}", {}).graph == graph, (number, form)
    (tmp_path / "export" / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert from_file(tmp_path / "export", {}).graph == graph


@pytest.mark.parametrize(
    ("name", "data", "hint"),
    [
        ("notes.txt", b"buy bread\n", "a GraphDef, a MetaGraphDef"),
        ("values.json", b'{"a": 1}', "as JSON"),
        ("empty.pb", b"", "it is empty"),
        ("model.ckpt-7.index", b"\0\1\2", "in the .meta beside it"),
        ("model.h5", b"\x89HDF\r\n\x1a\n", "it is HDF5"),
        ("lite.tflite", b"\x1c\0\0\0TFL3", "TensorFlow Lite"),
    ],
)
def test_what_holds_no_graph_is_told_what_would(tmp_path: Path, name: str, data: bytes, hint: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidArgumentError, match="is no graph") as caught:
        from_file(tmp_path / name, {})
    assert hint in str(caught.value)


def test_the_step_that_needs_most_is_chosen(file: Path) -> None:
    source = from_file(file, {})
    read = Step((), ("weights/read:0",))
    train = Step((), (), ("train",))
    assert Source("g", source.graph, source.devices, source.master, steps=[read, train]).longest() == train


def test_a_master_tells_its_sessions_and_their_steps(tmp_path: Path) -> None:
    cluster = InProcessCluster({"ps": 1, "worker": 1}, tmp_path)
    cluster.start_all()
    try:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                total = tf.add(1.0, tf.placeholder_with_default(2.0, [], name="x"), name="total")
            with tf.Session(cluster.target("worker", 0)) as session:
                assert session.run(total, {"x:0": 4.0}) == 5.0
                service = GraphService("worker/0", cluster.servers["worker", 0].master, needs_certificate=True)
                question = graphs_pb2.GraphQuestion()
                stranger = cast(Any, SimpleNamespace(auth_context=dict))
                with pytest.raises(UnauthenticatedError):
                    service.get(question, stranger)
                known = cast(Any, SimpleNamespace(auth_context=lambda: {"x509_common_name": [b"cli"]}))
                (told,) = service.get(question, known).session
                assert {node.name for node in told.graph.node} >= {"total", "x"}
                assert [(list(s.feed), list(s.fetch)) for s in told.step] == [(["x:0"], ["total:0"])]
                assert len(told.device) == 2
                assert not service.get(graphs_pb2.GraphQuestion(job="another"), known).session
    finally:
        cluster.close()


def test_the_command_shows_a_file_and_says_what_is_wrong(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "dtfctl", "graph", *words], capture_output=True, text=True)

    shown = run(str(file), "--run", "train", "--stage", "all", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    said = json.loads(shown.stdout)
    assert list(said["trees"]) == said["stages"] and said["step"] == "train"
    monkeypatch.setenv("PATH", str(file.parent))
    bare = run(str(file), "--format", "svg")
    assert bare.returncode == 2 and "apt install graphviz" in bare.stderr and "--format dot" in bare.stderr
    # A picture of each stage.
    assert run(str(file), "--stage", "all", "--format", "dot").returncode == 2
    assert run(str(file), "--stage", "all", "--format", "dot", "--to", str(file)).returncode == 2, "it is no folder"
    deep = run(str(file), "--stage", "all", "--format", "dot", "--to", str(file.parent / "not" / "there"))
    assert deep.returncode == 2 and f"there is no folder {file.parent / 'not'}" in deep.stderr
    for _ in range(2):
        drawn = run(str(file), "--stage", "all", "--format", "dot", "--to", str(file.parent / "stages"))
        assert drawn.returncode == 0, drawn.stderr
    names = sorted(picture.name for picture in (file.parent / "stages").iterdir())
    assert len(names) == len(said["stages"]) and names[0] == "00-given.dot" and names[-1].endswith("-partitioned.dot")
    # A name with no ending, text that a person reads, and what has no name that a job could have.
    (file.parent / "plain").write_bytes(file.read_bytes())
    plain = run(str(file.parent / "plain"))
    assert plain.returncode == 0 and "-8 nodes" not in plain.stdout, plain.stderr
    assert "name one with --fetch and --run" in plain.stdout and "passes that had nothing to do: " in plain.stdout
    for name, why in ((file.parent / "gone.onnx", "no file"), (file.parent, "folder without a saved_model.pb")):
        missing = run(str(name))
        assert missing.returncode == 2 and why in missing.stderr and "or a job is wanted" in missing.stderr
    wrong = run(str(file), "--fetch", "nothing")
    assert wrong.returncode == 2 and "nothing" in wrong.stderr and "Traceback" not in wrong.stderr


def test_a_step_of_nodes_that_are_not_there_is_told_what_there_is(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.add(tf.constant(1.0), 1.0, name="loss")
    file = tmp_path / "graph.pb"
    file.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(UsageError, match="it has no node los; there is loss") as caught:
        of_file(file, GraphView(fetches=("los",)))
    assert "without --fetch" in caught.value.hint
