"""What of a graph takes a picture and gives scores."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.operator.graphs import GraphView, of_file
from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.errors import NotFoundError, ResourceExhaustedError
from dtfctl.runtime.inspect import pictures
from dtfctl.runtime.inspect.pictures import find_picture_model, sides_of
from dtfctl.runtime.inspect.sources import Source, Step

MASTER = "/job:worker/replica:0/task:1"


def source(graph: tf.Graph, *steps: Step) -> Source:
    return Source("a graph", graph.as_graph_def(), [], MASTER, steps=steps)


def training(shape: list[int | None], dtype: tf.DType = tf.float32) -> tf.Graph:
    """A training graph: images and labels are fed, variables lie at the ps."""
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            weights = tf.Variable(np.zeros((64, 10), "f4"), name="weights")
        with tf.device("/job:worker/task:1"):
            images = tf.placeholder(dtype, shape, name="images")
            labels = tf.placeholder(tf.int64, [None], name="labels")
            flat = tf.reshape(tf.cast(images, tf.float32), [-1, 64])
            logits = tf.matmul(flat, weights, name="logits")
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            tf.train.AdamOptimizer().minimize(loss, name="train")
    return graph


@pytest.mark.parametrize("shape", [[64], [8, 8], [8, 8, 1], [1, 8, 8]])
def test_a_training_job_is_asked_for_what_its_softmax_takes(shape: list[int]) -> None:
    graph = training([None, *shape])
    found = find_picture_model(source(graph, Step(("images:0", "labels:0"), (), ("train",))))
    assert (found.input, found.output, found.shape) == ("images:0", "logits:0", tuple(shape))
    assert found.tasks == ("/job:ps/task:0", "/job:worker/task:1")
    # Nothing of the training comes along, nor of how weights begin.
    names = {node.name for node in found.graph.node}
    assert {"images", "weights", "logits"} <= names and "labels" not in names
    assert not any("Adam" in name or "gradients" in name or name.endswith("Assign") for name in names)
    by_name = {node.name: node for node in found.graph.node}
    assert by_name["weights"] == next(node for node in graph.as_graph_def().node if node.name == "weights")


def test_what_a_step_has_asked_for_comes_first() -> None:
    with tf.Graph().as_default() as graph:
        images = tf.placeholder(tf.float32, [None, 28, 28, 3], name="x")
        flat = tf.reshape(images, [-1, 28 * 28 * 3])
        hidden = tf.nn.softmax(tf.matmul(flat, tf.zeros([28 * 28 * 3, 4])), name="attention")
        tf.matmul(hidden, tf.ones([4, 2]), name="scores")
        tf.argmax(hidden, 1, name="class")
    assert find_picture_model(source(graph)).output == "MatMul:0"
    served = find_picture_model(source(graph, Step(("x:0",), ("class:0", "scores:0"))))
    assert (served.input, served.output, served.shape) == ("x:0", "scores:0", (28, 28, 3))


def test_a_placeholder_with_a_default_need_not_be_fed() -> None:
    with tf.Graph().as_default() as graph:
        images = tf.placeholder(tf.float32, [1, 8, 8])
        keep = tf.placeholder_with_default(np.float32(1.0), [], name="keep")
        tf.nn.softmax(tf.reshape(images, [1, 64]) * keep, name="chances")
    assert find_picture_model(source(graph)).input == "Placeholder:0"


def test_what_takes_no_picture_says_what_would_be_one() -> None:
    for graph in (
        training([None, 64], tf.uint8),
        training([None, 2, 32]),  # too low
        training([None, None, 8]),
        training([2, 64]),
        tf.Graph(),
    ):
        with pytest.raises(NotFoundError, match=r"a graph takes no picture: a placeholder of float32"):
            find_picture_model(source(graph))
    with tf.Graph().as_default() as graph:
        images, other = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.float32, [])
        tf.nn.softmax(images * other)
    with pytest.raises(NotFoundError):
        find_picture_model(source(graph))


def test_a_graph_that_is_too_long_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BYTES", 100)
    with pytest.raises(ResourceExhaustedError, match="longer than"):
        find_picture_model(source(training([None, 64])))


def test_sides() -> None:
    assert [sides_of(shape) for shape in ((64,), (6, 7), (6, 7, 3), (3, 6, 7), (3, 3, 3))] == [
        (8, 8),
        (6, 7),
        (6, 7),
        (6, 7),
        (3, 3),
    ]
    assert [sides_of(shape) for shape in ((63,), (6, 7, 2), (1, 2, 3, 4), ())] == [None] * 4


def test_the_process_that_shows_graphs_gives_it_to_programs(tmp_path: Path) -> None:
    tf.train.write_graph(training([None, 64]).as_graph_def(), str(tmp_path), "g.pb", as_text=False)
    found = of_file(tmp_path / "g.pb", GraphView(form="picture"))["picture"]
    assert found["task"] == "worker/1" and found["input"] == "images:0" and found["shape"] == [64]
    sent = graph_pb2.GraphDef.FromString(base64.b64decode(found["graph"]))
    assert "logits" in {node.name for node in sent.node}
    tf.train.write_graph(tf.Graph().as_graph_def(), str(tmp_path), "empty.pb", as_text=False)
    with pytest.raises(UsageError):
        of_file(tmp_path / "empty.pb", GraphView(form="picture"))
