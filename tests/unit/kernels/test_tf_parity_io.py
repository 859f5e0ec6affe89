"""Kernels that read examples, records and vocabularies, where TensorFlow's own tests look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import example_pb2
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.data_flow.record_input import RecordYielder
from dtfctl.runtime.kernels.io.records import write_tfrecords
from tests.support.interpreter import run_op


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def strings(*values: bytes) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def sequence(context: int, steps: list[list[int]]) -> bytes:
    proto = example_pb2.SequenceExample()
    proto.context.feature["c"].int64_list.value.append(context)
    for step in steps:
        proto.feature_lists.feature_list["f"].feature.add().int64_list.value.extend(step)
    return proto.SerializeToString()


def parse_sequences(serialized: Any, *, dense: bool, missing: bool = False) -> list[Any]:
    none = strings()
    return run_op(
        "ParseSequenceExampleV2",
        serialized,
        none,
        none,
        strings(b"c"),
        none,
        none if dense else strings(b"f"),
        strings(b"f") if dense else none,
        none if dense else strings(b"f"),
        np.array([missing] if dense else [], bool),
        [np.array([], np.int64)],
        context_dense_shapes=[TensorShape([])],
        Tcontext_dense=[dtypes.int64],
        Nfeature_list_sparse=0 if dense else 1,
        Nfeature_list_dense=1 if dense else 0,
        feature_list_sparse_types=[] if dense else [dtypes.int64],
        feature_list_dense_types=[dtypes.int64] if dense else [],
        feature_list_dense_shapes=[TensorShape([2])] if dense else [],
        feature_list_ragged_value_types=[] if dense else [dtypes.int64],
        feature_list_ragged_split_types=[] if dense else [dtypes.int32],
    )


def test_sequences_of_unequal_length_are_padded() -> None:
    context, values, lengths = parse_sequences(
        strings(sequence(7, [[1, 2]]), sequence(8, [[3, 4], [5, 6]])), dense=True
    )
    assert context.tolist() == [7, 8]
    assert values.tolist() == [[[1, 2], [0, 0]], [[3, 4], [5, 6]]]
    assert lengths.tolist() == [1, 2]


def test_sparse_and_ragged_lists_of_a_batch_and_of_one_message() -> None:
    first, second = sequence(7, [[1], []]), sequence(8, [[2, 3]])
    _, indices, values, shape, ragged, outer, inner = parse_sequences(strings(first, second), dense=False)
    assert indices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1]]
    assert values.tolist() == ragged.tolist() == [1, 2, 3]
    assert shape.tolist() == [2, 2, 2]
    assert outer.tolist() == [0, 2, 3] and inner.tolist() == [0, 1, 1, 3]
    context, indices, _, shape, _, _, inner = parse_sequences(strings(second)[0], dense=False)
    assert context.shape == () and indices.tolist() == [[0, 0], [0, 1]] and shape.tolist() == [1, 2]
    assert inner.tolist() == [0, 2]


def test_what_is_wrong_with_a_sequence() -> None:
    with pytest.raises(InvalidArgumentError, match=r"Index: 1\.  Number of int64 values != expected\.  values size: 3"):
        parse_sequences(strings(sequence(7, [[1, 2], [1, 2, 3]])), dense=True)
    with pytest.raises(InvalidArgumentError, match="Feature list 'f' is required but could not be found"):
        parse_sequences(strings(sequence(7, [])), dense=True)
    assert parse_sequences(strings(sequence(7, [])), dense=True, missing=True)[2].tolist() == [0]
    with pytest.raises(InvalidArgumentError, match="Could not parse example input"):
        parse_sequences(strings(b"\xff"), dense=True)


def test_an_example_alone_has_texts_of_its_own() -> None:
    proto = example_pb2.Example()
    proto.features.feature["a"].bytes_list.value.extend([b"x", b"y"])
    with pytest.raises(
        InvalidArgumentError, match=r"Key: a\.  Can't parse serialized Example: Parsing bytes_list failed"
    ):
        run_op(
            "ParseSingleExample",
            strings(proto.SerializeToString())[0],
            [strings()],
            num_sparse=0,
            sparse_keys=[],
            dense_keys=[b"a"],
            sparse_types=[],
            Tdense=[dtypes.string],
            dense_shapes=[TensorShape([1])],
        )


def test_bytes_that_are_no_tensor_are_shown() -> None:
    with pytest.raises(InvalidArgumentError, match="base64: Ym9ndXM="):
        run_op("ParseTensor", strings(b"bogus")[0], out_type=dtypes.uint16)


def remap_words(folder: Path, offset: int, count: int, old_size: int = -1) -> tuple[list[int], int]:
    (folder / "old").write_text("knitting\neminem\n")
    (folder / "new").write_text("eminem\nmusic\nknitting\n")
    files = [strings(str(folder / name).encode())[0] for name in ("new", "old")]
    remapping, present = run_op(
        "GenerateVocabRemapping", *files, new_vocab_offset=offset, num_new_vocab=count, old_vocab_size=old_size
    )
    return remapping.tolist(), int(present)


def test_words_find_their_old_numbers(tmp_path: Path) -> None:
    assert remap_words(tmp_path, 0, 3) == ([1, -1, 0], 2)
    assert remap_words(tmp_path, 1, 2) == ([-1, 0], 1)
    assert remap_words(tmp_path, 0, 3, old_size=1) == ([-1, -1, 0], 1)
    with pytest.raises(InvalidArgumentError, match="must be larger"):
        remap_words(tmp_path, 2, 2)


def load(folder: Path, rows: list[int], cols: list[int], initial: list[float], most: int = -1) -> list[list[float]]:
    prefix = str(folder / "ckpt")
    with BundleWriter(prefix) as writer:
        writer.add("m", np.arange(12, dtype=np.float32).reshape(4, 3), dtypes.float32)
    return run_op(
        "LoadAndRemapMatrix",
        strings(prefix.encode())[0],
        strings(b"m")[0],
        np.array(rows, np.int64),
        np.array(cols, np.int64),
        np.array(initial, np.float32),
        num_rows=len(rows),
        num_cols=len(cols) or 3,
        max_rows_in_memory=most,
    ).tolist()


@pytest.mark.parametrize("most", [-1, 1, 2, 100])
def test_a_matrix_is_loaded_in_a_new_order(tmp_path: Path, most: int) -> None:
    assert load(tmp_path, [3, -1, 0], [1, -1], [90, 91, 92, 93], most) == [[10, 90], [91, 92], [1, 93]]
    assert load(tmp_path, [2, 0], [], [], most) == [[6, 7, 8], [0, 1, 2]]


def test_what_cannot_be_remapped(tmp_path: Path) -> None:
    with pytest.raises(UnimplementedError, match="mapped to both new ID"):
        load(tmp_path, [1, 1], [], [])
    with pytest.raises(InvalidArgumentError, match="more missing values remain"):
        load(tmp_path, [-1], [], [1, 2])
    with pytest.raises(InvalidArgumentError, match="but only 3 elements were used"):
        load(tmp_path, [-1], [], [1, 2, 3, 4])


def test_every_record_once_an_epoch(tmp_path: Path) -> None:
    for i in range(3):
        write_tfrecords(str(tmp_path / f"part.{i}"), [f"{i}-{j}".encode() for j in range(4)])
    yielder = RecordYielder(str(tmp_path / "part.*"), 1, 5, 0.33, "")
    first, second = yielder.take(12), yielder.take(12)
    assert sorted(first) == sorted(second) == sorted(f"{i}-{j}".encode() for i in range(3) for j in range(4))
    assert first != second
    with pytest.raises(NotFoundError, match="Found no files"):
        RecordYielder(str(tmp_path / "none.*"), 1, 5, 0.0, "").take(1)


def test_a_readers_state_is_saved_and_restored() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        reader, queue = tf.IdentityReader("reader"), tf.FIFOQueue(99, [tf.string], [[]])
        key, _ = reader.read(queue)
        produced, completed = reader.num_records_produced(), reader.num_work_units_completed()
        fill = queue.enqueue_many([["X", "Y", "Z"]])
        given = tf.placeholder(tf.string, None)
        serialize, restore = reader.serialize_state(), reader.restore_state(given)
        session.run(fill)
        assert session.run(key) == b"X"
        state = session.run(serialize)
        assert [session.run(key), session.run(key)] == [b"Y", b"Z"]
        assert session.run([produced, completed]) == [3, 3]
        session.run(restore, {given: state})
        assert session.run([produced, completed]) == [1, 1]
        for bad in (state[1:], state[:-1], state + b"ExtraJunk", b"BOGUS" + state[5:]):
            with pytest.raises(InvalidArgumentError, match="Could not parse state for IdentityReader 'reader'"):
                session.run(restore, {given: bad})
        with pytest.raises(InvalidArgumentError, match=r"Inconsistent work started vs\. finished"):
            session.run(restore, {given: b"\x08\x02\x10\x01"})
        with pytest.raises(InvalidArgumentError, match="must be scalar"):
            session.run(restore, {given: [state]})
        lines = tf.TextLineReader(name="lines")
        with pytest.raises(UnimplementedError, match="not supported by TextLineReader 'lines'"):
            session.run(lines.serialize_state())


def test_an_audio_summary_has_one_rate() -> None:
    with pytest.raises(InvalidArgumentError, match="sample_rate must be rank-0 or contain a single value"):
        run_op("AudioSummaryV2", np.array(b"", object), np.float32([[1]]), np.float32([1, 2]))


def test_sparse_operands_whose_ranks_differ_are_named() -> None:
    one, none = np.array([[1]]), np.zeros((1, 0), np.int64)
    with pytest.raises(InvalidArgumentError, match=r"Index rank \(0\) and shape rank \(1\) do not match"):
        run_op("SparseSparseMaximum", one, i64(0), i64(2), none, i64(1), i64(2))
