"""`tf.saved_model`: written and read here, and one that TensorFlow wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

import dtfctl.runtime as tf
from tests.unit.names.programs import DATA
from tests.unit.names.saved_model_program import use, write

WANT = ([[51.5]], [2, -1])


@pytest.mark.parametrize("scope", [None, "inner"])
def test_a_model_of_tensorflow_is_loaded(scope: str | None) -> None:
    assert use(tf, str(DATA / "saved_model"), scope) == WANT


@pytest.mark.parametrize("scope", [None, "inner"])
def test_a_model_is_written_and_loaded_without_the_files_it_was_made_of(tmp_path: Path, scope: str | None) -> None:
    vocabulary = tmp_path / "vocabulary.txt"
    write(tf, str(tmp_path / "model"), vocabulary)
    vocabulary.unlink()
    assert use(tf, str(tmp_path / "model"), scope) == WANT
    names = {str(p.relative_to(tmp_path / "model")) for p in (tmp_path / "model").rglob("*") if p.is_file()}
    theirs = {str(p.relative_to(DATA / "saved_model")) for p in (DATA / "saved_model").rglob("*") if p.is_file()}
    assert names == theirs


def test_several_graphs_share_the_variables(tmp_path: Path) -> None:
    builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=3.0)
        session.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, ["train", "gpu"])
        with pytest.raises(AssertionError, match="already been saved"):
            builder.add_meta_graph_and_variables(session, ["other"])
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=0.0)
        signature = tf.saved_model.predict_signature_def({"v": v}, {"y": tf.multiply(v, 2.0, name="y")})
        builder.add_meta_graph([tf.saved_model.tag_constants.SERVING], {"double": signature})
    assert builder.save(as_text=True).endswith(b"saved_model.pbtxt")
    assert tf.saved_model.loader.maybe_saved_model_directory(str(tmp_path / "model").encode())
    with tf.Graph().as_default(), tf.Session() as session:
        # As `export_saved_model` gives it.
        meta = tf.saved_model.load(session, ["serve"], str(tmp_path / "model").encode())
        output = tf.saved_model.utils.get_tensor_from_tensor_info(meta.signature_def["double"].outputs["y"])
        assert session.run(output) == 6.0
        with pytest.raises(RuntimeError, match="tags"):
            tf.saved_model.load(session, ["train"], str(tmp_path / "model"))
    with pytest.raises(AssertionError, match="isn't empty"):
        tf.saved_model.Builder(str(tmp_path / "model"))


def test_a_model_without_variables(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": tf.negative(x, name="y")})
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.load(session, ["serve"], str(tmp_path / "m"))
        assert session.run("y:0", {"x:0": 2.0}) == -2.0


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    assert not tf.saved_model.contains_saved_model(str(tmp_path))
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(OSError, match="does not exist"):
            tf.saved_model.load(session, ["serve"], str(tmp_path))
        (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
        with pytest.raises(OSError, match="Cannot parse"):
            tf.saved_model.load(session, ["serve"], str(tmp_path))
        with pytest.raises(AssertionError, match="name and dtype"):
            nameless = tf.saved_model.build_tensor_info(tf.constant(1))
            nameless.ClearField("name")
            signatures = {"s": tf.saved_model.build_signature_def({"x": nameless})}
            builder = tf.saved_model.Builder(str(tmp_path / "new"))
            builder.add_meta_graph_and_variables(session, ["t"], signatures)


def test_signatures_of_each_method() -> None:
    with tf.Graph().as_default():
        examples = tf.placeholder(tf.string, [None])
        scores = tf.placeholder(tf.float32, [None, 3])
        sparse = tf.sparse_placeholder(tf.string)
        make = tf.saved_model.signature_def_utils
        valid = [
            make.regression_signature_def(examples, scores),
            make.classification_signature_def(examples, None, scores),
            make.classification_signature_def(sparse, tf.as_string(scores), scores),
            make.predict_signature_def({"a": scores}, {"b": scores}),
        ]
        assert all(make.is_valid_signature(s) for s in valid)
        assert valid[0].inputs["inputs"].tensor_shape.dim[0].size == -1
        read = tf.saved_model.get_tensor_from_tensor_info(valid[2].inputs["inputs"])
        assert read.values is sparse.values
        valid[0].outputs["more"].CopyFrom(valid[0].outputs["outputs"])
        assert not make.is_valid_signature(valid[0])
        assert not make.is_valid_signature(make.build_signature_def(method_name="other"))
        with pytest.raises(ValueError, match="must be of type string"):
            make.regression_signature_def(scores, scores)
        with pytest.raises(ValueError, match="cannot be None or empty"):
            make.predict_signature_def({}, {"b": scores})
