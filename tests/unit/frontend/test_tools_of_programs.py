"""Tools that programs import from `tensorflow.python.tools`: graphs are frozen and stripped, checkpoints are shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.programs.counterparts import freeze_graph, inspect_checkpoint, strip_unused_lib


@pytest.fixture
def saved(tmp_path: Path) -> tuple[str, np.ndarray]:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        with tf.device("/device:GPU:0"):
            w = tf.get_variable("w", [3, 2], initializer=tf.glorot_uniform_initializer(seed=1))
        y = tf.identity(tf.matmul(tf.check_numerics(x, "bad"), w), name="y")
        tf.get_variable("unused", [4])
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            path = tf.train.Saver().save(session, str(tmp_path / "m"), 3)
            tf.train.write_graph(graph.as_graph_def(), str(tmp_path), "graph.pbtxt")
            return path, session.run(y, {x: np.ones((1, 3))})


@pytest.mark.parametrize("way", ["graph", "meta"])
def test_a_graph_is_frozen(way: str, saved: tuple[str, np.ndarray], tmp_path: Path) -> None:
    path, want = saved
    graph = str(tmp_path / "graph.pbtxt") if way == "graph" else ""
    meta = f"{path}.meta" if way == "meta" else None
    out = str(tmp_path / "frozen.pb")
    made = freeze_graph.freeze_graph(
        graph, "", False, path, "y", "save/restore_all", "save/Const:0", out, True, "", input_meta_graph=meta
    )
    graph_def = tf.GraphDef.FromString(Path(out).read_bytes())
    assert graph_def == made
    assert {n.op for n in graph_def.node} == {"Placeholder", "CheckNumerics", "Const", "Identity", "MatMul"}
    assert not any(n.device for n in graph_def.node)
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(graph_def, return_elements=["y:0"])
        np.testing.assert_allclose(session.run(y, {"import/x:0": np.ones((1, 3))}), want)


def test_what_cannot_be_frozen_says_so(saved: tuple[str, np.ndarray], tmp_path: Path) -> None:
    path, _ = saved
    graph = str(tmp_path / "graph.pbtxt")
    with pytest.raises(ValueError, match="doesn't exist"):
        freeze_graph.freeze_graph(graph, "", False, str(tmp_path / "no"), "y", None, None, "", True, "")
    with pytest.raises(ValueError, match="--output_node_names"):
        freeze_graph.freeze_graph(graph, "", False, path, "", None, None, "", True, "")


def test_a_graph_is_stripped(saved: tuple[str, np.ndarray], tmp_path: Path) -> None:
    path, _ = saved
    frozen = freeze_graph.freeze_graph(str(tmp_path / "graph.pbtxt"), "", False, path, "y", None, None, "", True, "")
    stripped = strip_unused_lib.strip_unused(frozen, ["CheckNumerics"], ["y"], tf.float32.as_datatype_enum)
    assert [n.op for n in stripped.node if n.name == "CheckNumerics"] == ["Placeholder"]
    assert "x" not in {n.name for n in stripped.node}


def test_a_checkpoint_is_shown(saved: tuple[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    show = inspect_checkpoint.print_tensors_in_checkpoint_file
    show(saved[0], "", all_tensors=False, all_tensor_names=True)
    assert (
        capsys.readouterr().out
        == "tensor: unused (float32) [4]\ntensor: w (float32) [3, 2]\n# Total number of params: 10\n"
    )
    show(saved[0], "w", all_tensors=False, count_exclude_pattern="unused")
    said = capsys.readouterr().out
    assert said.startswith("tensor: w (float32) [3, 2]\n[[") and said.endswith("# Total number of params: 6\n")
    show(saved[0], "other", all_tensors=False)
    assert capsys.readouterr().out == "Tensor other not found in checkpoint\n"


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_are_saved_by_the_outputs_of_their_ops(use_resource: bool, tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer(), use_resource=use_resource)
        saver = tf.train.Saver({"kept": graph.get_tensor_by_name("v:0")})
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        assert tf.train.list_variables(path) == [("kept", [2])]
        session.run(v.assign([5.0, 6.0]))
        saver.restore(session, path)
        assert session.run(v).tolist() == [1.0, 1.0]
        with pytest.raises(TypeError, match="not a Variable"):
            tf.train.Saver({"kept": tf.constant(1.0)})
