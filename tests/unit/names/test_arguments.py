"""What arguments do that programs give seldom: how TensorFlow has them, or an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf


def test_errors_take_their_arguments_by_place_and_by_name() -> None:
    named = tf.errors.OutOfRangeError(node_def=None, op=None, message="the end")
    placed = tf.errors.OutOfRangeError(None, None, "the end")
    mixed = tf.errors.OutOfRangeError(None, None, message="the end")
    assert str(named) == str(placed) == str(mixed) == "the end"
    assert tf.errors.OpError(None, None, "no", 5).error_code == tf.errors.NOT_FOUND


def test_ops_are_made_by_type_and_attributes() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.constant([1.0, 2.0])
        kind = tf.AttrValue(type=tf.float32.as_datatype_enum)
        op = graph.create_op("Add", [x, x], [tf.float32], name="twice", attrs={"T": kind})
        assert (op.name, op.type) == ("twice", "Add")
        with pytest.raises(TypeError, match="not"):
            graph.create_op("Add", [x, x], [tf.int32], attrs={"T": kind})
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(op.outputs[0]), [2.0, 4.0])


def test_device_specs_of_programs_change() -> None:
    spec = tf.DeviceSpec(job="worker", device_type="CPU")
    spec.merge_from(tf.DeviceSpec(job="ps", task=1))
    assert spec.to_string() == "/job:ps/task:1/device:CPU" + ":*"
    assert spec.parse_from_string("/job:a/gpu:0") is spec
    assert spec == tf.DeviceSpec(job="a", device_type="GPU", device_index=0)


def test_variable_scopes_get_variables() -> None:
    with tf.Graph().as_default():
        with tf.variable_scope("outer") as scope:
            pass
        made = scope.get_variable(None, "v", [2], tf.float64)
        assert (made.name, made.dtype.base_dtype) == ("outer/v:0", tf.float64)
        assert scope.get_variable(None, "v", [2], tf.float64, reuse=True).name == made.name
        with pytest.raises(ValueError, match="var_store"):
            scope.get_variable(object(), "w", [2])


def test_flags_have_bounds_and_may_be_required(capsys: pytest.CaptureFixture[str]) -> None:
    flags = tf.app.flags
    values = type(flags.FLAGS)()
    flags.DEFINE_integer("rate", 3, "", lower_bound=1, upper_bound=5, flag_values=values)
    flags.DEFINE_string("name", None, "", values, required=True)
    flags.DEFINE_multi_enum("kind", None, ["A", "b"], "", values, case_sensitive=False)
    flags.DEFINE_spaceseplist("parts", "x y", "", True, values)
    assert values(["p", "--rate=5", "--name=n", "--kind=a", "--parts=q,r s"]) == ["p"]
    assert (values.rate, values.name, values.kind, values.parts) == (5, "n", ["A"], ["q", "r", "s"])
    with pytest.raises(SystemExit):
        values(["p", "--name=n", "--rate=6"])
    assert "not in [1, 5]" in capsys.readouterr().err
    with pytest.raises(ValueError, match="rate2"):
        flags.DEFINE_integer("rate2", 9, "", upper_bound=5, flag_values=values)
    with pytest.raises(ValueError, match="required"):
        flags.DEFINE_string("other", "x", "", values, required=True)
    with pytest.raises(SystemExit):
        fresh = type(flags.FLAGS)()
        flags.DEFINE_string("name", None, "", fresh, required=True)
        fresh(["p"])


def test_structures_are_compared_with_or_without_types() -> None:
    tf.nest.assert_same_structure([1, 2], (3, 4), check_types=False)
    with pytest.raises(TypeError, match="type"):
        tf.nest.assert_same_structure(nest1=[1, 2], nest2=(3, 4))
    assert tf.nest.pack_sequence_as([0, 0], flat_sequence=[2, 3]) == [2, 3]


def test_static_values_may_be_partial() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.int32, [])
        both = tf.stack([x, 3])
        assert tf.get_static_value(both) is None
        assert list(tf.get_static_value(both, partial=True)) == [None, 3]


def test_generators_are_described_by_specs() -> None:
    with tf.Graph().as_default():
        spec = {"a": tf.TensorSpec([2], tf.int64)}
        made = tf.data.Dataset.from_generator(lambda: iter([{"a": [1, 2]}]), output_signature=spec)
        assert made.output_shapes["a"].as_list() == [2]
        element = tf.data.make_one_shot_iterator(made).get_next()
        with tf.Session() as session:
            assert session.run(element)["a"].tolist() == [1, 2]
        with pytest.raises(TypeError, match="output_signature"):
            tf.data.Dataset.from_generator(iter, tf.int64, output_signature=spec)
        with pytest.raises(TypeError, match="output_types"):
            tf.data.Dataset.from_generator(iter)


def test_checkpoints_keep_an_interval_of_steps(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        grow = step.assign_add(5)
        called: list[bool] = []
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(step=step),
            str(tmp_path),
            3,
            step_counter=step,
            checkpoint_interval=10,
            init_fn=lambda: called.append(True),
        )
        with tf.Session() as session:
            assert manager.restore_or_initialize() is None
            assert called
            written = []
            for _ in range(4):
                written.append(manager.save() is not None)
                session.run(grow)
            assert written == [True, False, True, False]
            assert manager.save(check_interval=False) is not None
    with pytest.raises(ValueError, match="step_counter"):
        tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), 3, checkpoint_interval=10)


def test_what_is_not_supported_says_what_to_do() -> None:
    with tf.Graph().as_default():
        x = tf.ones([2, 3])
        with pytest.raises(ValueError, match=r"tf\.nn\.moments"):
            tf.layers.batch_normalization(x, renorm=True)
        with pytest.raises(ValueError, match="layout"):
            tf.zeros([2], layout=object())
        with pytest.raises(ValueError, match="shards"):
            tf.nn.rnn_cell.LSTMCell(2, num_unit_shards=2)
        with pytest.raises(ValueError, match="cast"):
            tf.nn.rnn_cell.GRUCell(2, dtype=tf.float64)(x, tf.ones([2, 2]))
        with pytest.raises(ValueError, match="output_type"):
            tf.matmul(x, x, transpose_b=True, a_is_sparse=True, output_type=tf.float64)
        with pytest.raises(ValueError, match="TFRecordDataset"):
            tf.io.tf_record_iterator("x", tf.io.TFRecordOptions("GZIP"))
