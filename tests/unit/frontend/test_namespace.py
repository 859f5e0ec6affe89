"""Names TF1 programs use that belong to no bigger subject."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime import api
from dtfctl.runtime.ops import op_defs


def test_a_python_function_as_an_op() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None])
        total, largest = tf.py_func(lambda a: (a.sum(), a.max()), [x], [tf.float32, tf.float32])
        double = tf.py_func(lambda a: a * 2, [x], tf.float32, stateful=False)
        got = session.run([total, largest, double], {x: [1, 2, 5]})
    assert got[:2] == [8.0, 5.0]
    assert got[2].tolist() == [2, 4, 10]


def test_what_a_python_function_raises_becomes_an_error_of_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        failing = tf.py_func(lambda: int("x"), [], tf.int64)
        with pytest.raises(tf.errors.InvalidArgumentError, match="invalid literal"):
            session.run(failing)


def test_assertions_guard_what_depends_on_them() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int32, [])
        with tf.control_dependencies([tf.Assert(x > 0, [x]), tf.assert_less(x, 10)]):
            y = tf.identity(x)
        assert session.run(y, {x: 3}) == 3
        for value in (0, 10):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(y, {x: value})


def test_looking_into_a_checkpoint(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", initializer=np.arange(6, dtype=np.float32).reshape(3, 2))
        tf.get_variable("big", [4, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.ones_initializer())
        session.run(tf.initialize_all_variables())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"), global_step=7)
    assert tf.train.list_variables(str(tmp_path)) == [("big", [4, 2]), ("w", [3, 2])]
    assert tf.train.load_variable(prefix, "w:0").tolist() == [[0, 1], [2, 3], [4, 5]]
    reader = tf.train.NewCheckpointReader(prefix)
    assert (reader.has_tensor("w"), reader.has_tensor("v")) == (True, False)
    assert reader.get_tensor("big").tolist() == [[1, 1]] * 4
    assert reader.get_variable_to_dtype_map()["w"] is tf.float32
    with pytest.raises(ValueError, match="checkpoint"):
        tf.train.load_checkpoint(str(tmp_path / ".."))


def test_examples_are_written_and_parsed() -> None:
    feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5, 2.5]))}
    example = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    with tf.Graph().as_default(), tf.Session() as session:
        parsed = tf.parse_single_example(example, {"x": tf.FixedLenFeature([2], tf.float32)})
        assert session.run(parsed["x"]).tolist() == [1.5, 2.5]


def test_namespaces_hold_what_their_name_says() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor([[0, 1]], [3.0], [2, 2])
        assert session.run(tf.sparse.to_dense(sparse)).tolist() == [[0, 3], [0, 0]]
        assert session.run(sparse).indices.tolist() == [[0, 1]]
        assert session.run(tf.linalg.transpose(tf.ones([2, 3]))).shape == (3, 2)
        assert session.run(tf.image.flip_left_right(tf.reshape(tf.range(2), [1, 2, 1]))).ravel().tolist() == [1, 0]
        hits = tf.nn.log_uniform_candidate_sampler(tf.constant([[0]], tf.int64), 1, 4, True, 9, seed=1)
        assert len(set(session.run(hits[0]).tolist())) == 4


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_written_in_the_client_are_read_by_a_dataset(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "records"
    with tf.python_io.TFRecordWriter(path, compression) as writer:
        for record in (b"one", b"", b"three"):
            writer.write(record)
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.TFRecordDataset(str(path), compression_type=compression)
        following = dataset.make_one_shot_iterator().get_next()
        assert [session.run(following) for _ in range(3)] == [b"one", b"", b"three"]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(following)
    if not compression:
        assert list(tf.python_io.tf_record_iterator(path)) == [b"one", b"", b"three"]


def test_a_name_is_brought_into_the_api_once() -> None:
    # Namespaces that share a name take it from api/_shared; a second name of the same thing is an assignment. What an
    # entry exports is written into api/_exported for each.
    root = Path(api.__file__).parent
    places: dict[tuple[str, str], list[str]] = {}
    for path in sorted(path for path in root.rglob("*.py") if path.parent.name != "_exported"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dtfctl."):
                for alias in node.names:
                    if alias.name != "*":
                        places.setdefault((str(node.module), alias.name), []).append(str(path.relative_to(root)))
    assert len(places) > 700
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_names_of_an_entrys_function_are_those_that_the_entry_exports() -> None:
    families = [getattr(op_defs, name) for name in op_defs.__all__]
    exported = {public: function for family in families for public, function in family.define.exports.items()}
    functions = {
        id(value)
        for family in families
        for value in vars(family).values()
        if inspect.isfunction(value) and value.__module__.startswith(op_defs.__name__)
    }

    def entered(value: Any) -> Any:
        """The entry's function, also where one stands before it that takes ragged tensors."""
        return value if id(value) in functions else getattr(value, "__wrapped__", value)

    spaces = {"": api} | {n: m for n, m in vars(api).items() if getattr(m, "__name__", "") == f"{api.__name__}.{n}"}
    offered = {
        f"{space}.{name}" if space else name: entered(value)
        for space, module in spaces.items()
        for name, value in vars(module).items()
        if id(entered(value)) in functions
    }
    assert offered == exported
    assert exported["nn.relu"] is entered(tf.nn.relu)
    assert exported["strings.length"] is exported["strings.string_length"] is entered(tf.strings.length)
