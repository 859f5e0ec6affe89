"""Checkpoint files: what is written is read back, atomically, and damage is noticed."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import textwrap
from pathlib import Path

import google_crc32c
import ml_dtypes
import numpy as np
import pytest

from dtfctl.runtime.checkpoint.blocks import LARGE, PIECE, combine
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter, data_file, index_file
from dtfctl.runtime.checkpoint.direct import PAGE, DirectFile, buffer
from dtfctl.runtime.checkpoint.merge import merge_bundles
from dtfctl.runtime.checkpoint.ordered_code import write_signed, write_string
from dtfctl.runtime.checkpoint.slice_table import SliceTableReader, SliceToSave, write_slice_table
from dtfctl.runtime.checkpoint.snappy import snappy_decompress
from dtfctl.runtime.checkpoint.sstable import Table, build_table, mask_crc, unmask_crc
from dtfctl.runtime.checkpoint.tensor_slice import TensorSlice, parse_shape_and_slice
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
)
from dtfctl.runtime.framework.tensor_codec import object_array

WHOLE = np.arange(40, dtype=np.float32).reshape(10, 4)


def values() -> dict[str, np.ndarray]:
    named: dict[str, np.ndarray] = {
        "a/w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
        "b": np.array(5, np.int64),
        "s": object_array([b"x", b"", b"hello" * 100], (3, 1)),
        "bf": np.arange(6).astype(ml_dtypes.bfloat16),
        "c": np.array([1 + 2j], np.complex64),
        "empty": np.zeros((0, 3)),
        "flags": np.array([True, False]),
        "large": np.arange(LARGE // 4 + 3, dtype=np.int32),
    }
    for i in range(3000):
        named[f"many/layer_{i:05d}/weights_with_a_long_name_that_shares_its_beginning_{i}"] = np.array(i, np.float32)
    return named


def dtype_of(value: np.ndarray) -> dtypes.DType:
    return dtypes.string if value.dtype == object else dtypes.as_dtype(value.dtype)


def write(prefix: str, in_background: bool) -> None:
    with BundleWriter(prefix, in_background) as writer:
        for name, value in values().items():
            writer.add(name, value, dtype_of(value))
        for start, size in ((0, 4), (4, 3), (7, 3)):
            piece = TensorSlice((start, 0), (size, -1))
            writer.add_slice("part", (10, 4), piece, WHOLE[start : start + size], dtypes.float32)


@pytest.fixture(params=[False, True], ids=["", "in the background"])
def prefix(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    path = str(tmp_path / "model-1")
    write(path, request.param)
    return path


def test_everything_is_read_back(prefix: str) -> None:
    reader = BundleReader(prefix)
    for name, value in values().items():
        got = reader.read(name)
        assert got.shape == value.shape and got.dtype == value.dtype, name
        assert got.tolist() == value.tolist(), name
    assert reader.dtype_and_shape("part") == (dtypes.float32, (10, 4))
    np.testing.assert_array_equal(reader.read("part"), WHOLE)


def test_a_slice_across_saved_slices(prefix: str) -> None:
    _, piece, shape = parse_shape_and_slice("10 4 3,5:1,2")
    assert shape == (5, 2)
    np.testing.assert_array_equal(BundleReader(prefix).read_slice("part", piece), WHOLE[3:8, 1:3])


def test_missing_slices_are_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    with BundleWriter(path) as writer:
        writer.add_slice("part", (10, 4), TensorSlice((0, 0), (4, -1)), WHOLE[:4], dtypes.float32)
    reader = BundleReader(path)
    np.testing.assert_array_equal(reader.read_slice("part", TensorSlice((1, 0), (3, -1))), WHOLE[1:4])
    with pytest.raises(InvalidArgumentError, match="sufficient slices"):
        reader.read("part")


@pytest.mark.parametrize("name", ["a/w", "s"])
def test_a_flipped_bit_is_data_loss(prefix: str, name: str) -> None:
    path = Path(data_file(prefix, 0, 1))
    entry = BundleReader(prefix).entry(name)
    data = bytearray(path.read_bytes())
    data[entry.offset + entry.size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataLossError, match="Checksum does not match"):
        BundleReader(prefix).read(name)
    assert BundleReader(prefix).read("b") == 5


def test_a_damaged_index_is_data_loss(prefix: str) -> None:
    path = Path(index_file(prefix))
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataLossError, match="block checksum mismatch"):
        BundleReader(prefix)
    path.write_bytes(data[:-1])
    with pytest.raises(DataLossError, match="not an sstable"):
        BundleReader(prefix)


def test_missing_things_are_named(prefix: str) -> None:
    with pytest.raises(NotFoundError, match="Key nope not found in checkpoint"):
        BundleReader(prefix).read("nope")
    with pytest.raises(NotFoundError, match="Failed to find any matching files for"):
        BundleReader(prefix + "x")


def test_a_failed_save_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="duplicate key"), BundleWriter(str(tmp_path / "m")) as writer:
        writer.add("a", np.zeros(3), dtypes.float64)
        writer.add("a", np.zeros(3), dtypes.float64)
    assert os.listdir(tmp_path) == []


def test_a_save_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    """No second way into the file, as this process may have no more open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (tmp_path / "probe").open("w") as probe:
        # One more file, and not two.
        limit = probe.fileno() + 1
    (tmp_path / "probe").unlink()
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        with pytest.raises(ResourceExhaustedError, match="Too many open files"):
            BundleWriter(str(tmp_path / "m"), in_background=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert os.listdir(tmp_path) == []


def test_merging_shards(tmp_path: Path) -> None:
    parts = []
    for i in range(3):
        parts.append(str(tmp_path / "tmp" / f"part-{i}"))
        with BundleWriter(parts[-1]) as writer:
            writer.add(f"v{i}", np.full(2, i, np.int32), dtypes.int32)
            piece = TensorSlice((i * 2, 0), (2, -1))
            writer.add_slice("part", (6, 4), piece, WHOLE[i * 2 : i * 2 + 2], dtypes.float32)
    merged = str(tmp_path / "model")
    merge_bundles(parts, merged)
    reader = BundleReader(merged)
    assert reader.header.num_shards == 3
    assert [reader.read(f"v{i}").tolist() for i in range(3)] == [[0, 0], [1, 1], [2, 2]]
    np.testing.assert_array_equal(reader.read("part"), WHOLE[:6])
    assert os.listdir(tmp_path / "tmp") == []


def test_merging_what_is_twice_is_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with BundleWriter(str(tmp_path / name)) as writer:
            writer.add("same", np.zeros(1), dtypes.float64)
    with pytest.raises(InvalidArgumentError, match="Duplicate tensor keyed by same"):
        merge_bundles([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "m"))


def test_the_older_format(tmp_path: Path) -> None:
    path = str(tmp_path / "old")
    text = object_array([b"x", b"yy"], (2,))
    slices = [
        SliceToSave("part", (10, 4), TensorSlice((i, 0), (5, -1)), WHOLE[i : i + 5], dtypes.float32) for i in (0, 5)
    ]
    write_slice_table(path, [*slices, SliceToSave("s", (2,), TensorSlice.full(1), text, dtypes.string)])
    reader = SliceTableReader(path)
    np.testing.assert_array_equal(reader.read("part"), WHOLE)
    np.testing.assert_array_equal(reader.read("part", TensorSlice((3, 1), (4, 2))), WHOLE[3:7, 1:3])
    assert reader.read("s").tolist() == [b"x", b"yy"]


def test_tables_of_many_blocks() -> None:
    rows = [(f"key/{i:06d}".encode(), os.urandom(i % 50)) for i in range(5000)]
    table = Table(build_table(rows, block_size=1000))
    assert list(table.items()) == rows
    assert table.get(b"key/004999") == rows[-1][1]
    assert table.get(b"key/0049990") is None and table.get(b"") is None


def test_encodings() -> None:
    # Values from the format's definition.
    assert write_signed(0) == b"\x80" and write_signed(-1) == b"\x7f" and write_signed(63) == b"\xbf"
    assert write_signed(64) == b"\xc0\x40" and write_signed(-65) == b"\x3f\xbf"
    assert write_string(b"a\x00\xff") == b"a\x00\xff\xff\x00\x00\x01"
    encoded = sorted(range(-70000, 70000, 977), key=write_signed)
    assert encoded == sorted(encoded)
    assert unmask_crc(mask_crc(0x12345678)) == 0x12345678


def test_snappy() -> None:
    # "abcdabcdabcd" as a literal of four bytes and an overlapping copy of eight.
    assert snappy_decompress(b"\x0c\x0cabcd\x11\x04") == b"abcdabcdabcd"
    with pytest.raises(DataLossError):
        snappy_decompress(b"\x0c\x0cabcd\x11\x09")


_READ = """
    import sys, numpy as np, tensorflow as tf
    reader = tf.train.load_checkpoint(sys.argv[1])
    assert (reader.get_tensor("part") == np.arange(40, dtype=np.float32).reshape(10, 4)).all()
    assert reader.get_tensor("s").tolist() == [[b"x"], [b""], [b"hello" * 100]]
    assert (reader.get_tensor("large") == np.arange((1 << 20) + 3)).all()
    assert reader.get_tensor("bf").astype(float).tolist() == [0, 1, 2, 3, 4, 5]
    assert len(reader.get_variable_to_shape_map()) == 3009
    out = tf.raw_ops.RestoreV2(prefix=sys.argv[1], tensor_names=["part"], shape_and_slices=["10 4 3,5:1,2"],
                               dtypes=[tf.float32])[0]
    tf.raw_ops.SaveV2(prefix=sys.argv[2], tensor_names=["x", "t"], shape_and_slices=["10 4 0,6:-", ""],
                      tensors=[tf.reshape(tf.range(24.0), [6, 4]), tf.constant(["a", "bc"])])
"""


@pytest.mark.interop
@pytest.mark.skipif("DTF_TEST_TENSORFLOW" not in os.environ, reason="DTF_TEST_TENSORFLOW names no environment")
def test_stock_tensorflow_reads_ours_and_we_read_its(prefix: str, tmp_path: Path) -> None:
    theirs = str(tmp_path / "theirs")
    python = os.environ["DTF_TEST_TENSORFLOW"]
    subprocess.run([python, "-c", textwrap.dedent(_READ), prefix, theirs], check=True, timeout=120)
    reader = BundleReader(theirs)
    np.testing.assert_array_equal(
        reader.read_slice("x", TensorSlice((1, 0), (5, -1))), np.arange(24.0).reshape(6, 4)[1:6]
    )
    assert reader.read("t").tolist() == [b"a", b"bc"]


@pytest.mark.slow
@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.parametrize("size", [LARGE, PIECE + 12, 2 * PIECE + (1 << 20)])
def test_a_large_tensor_is_written_and_read_in_pieces(tmp_path: Path, size: int, in_background: bool) -> None:
    path = str(tmp_path / "m")
    big = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    with BundleWriter(path, in_background) as writer:
        writer.add("before", WHOLE, dtypes.float32)
        writer.add("big", big, dtypes.uint8)
        writer.add("strided", np.broadcast_to(np.float64(2), (1 << 10, 1 << 10)), dtypes.float64)
        writer.add("after", WHOLE, dtypes.float32)
    reader = BundleReader(path)
    # The checksum of the whole, as other programs compute it.
    assert unmask_crc(reader.entry("big").crc32c) == google_crc32c.value(big.tobytes())
    if in_background:
        # Large tensors have pages to themselves.
        assert [reader.entry(name).offset % PAGE for name in ("big", "strided", "after")] == [0, 0, 0]
    else:
        assert reader.entry("after").offset == WHOLE.nbytes + size + (8 << 20)
    np.testing.assert_array_equal(reader.read("big"), big)
    np.testing.assert_array_equal(reader.read("after"), WHOLE)
    assert np.all(reader.read("strided") == 2)


def test_pages_past_the_cache_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    pages = buffer(5 * PAGE)
    pages[:] = np.arange(pages.size) % 251
    file = DirectFile(str(path))
    file.write(pages[: 2 * PAGE], 4 * PAGE)
    assert path.read_bytes() == bytes(4 * PAGE) + pages[: 2 * PAGE].tobytes()
    # A file system with larger blocks refuses as for a place in the middle of one: it is written the usual way.
    file.write(pages, 7)
    file.write(pages[:PAGE], 100)
    file.close()
    assert path.read_bytes()[:110] == bytes(7) + pages[:93].tobytes() + pages[:10].tobytes()


def test_a_file_in_memory_and_a_full_disk() -> None:
    pages = buffer(2 * PAGE)
    pages[:] = 3
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as kept:
        file = DirectFile(kept.name)
        file.write(pages, PAGE)
        file.close()
        assert kept.read() == bytes(PAGE) + pages.tobytes()
    file = DirectFile("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        file.write(pages, 0)
    file.close()


def test_damage_and_a_short_file_are_noticed_in_a_large_tensor(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    with BundleWriter(path) as writer:
        writer.add("big", np.zeros(2 * LARGE, np.uint8), dtypes.uint8)
    data = Path(data_file(path, 0, 1))
    with data.open("r+b") as file:
        file.seek(LARGE + 5)
        file.write(b"x")
    with pytest.raises(DataLossError, match="Checksum does not match"):
        BundleReader(path).read("big")
    os.truncate(data, LARGE)
    with pytest.raises(DataLossError, match="the file ends before tensor big does"):
        BundleReader(path).read("big")


@pytest.mark.parametrize("lengths", [(0, 5), (7, 0), (1, 1), (1000, 1), (3, 100_000)])
def test_checksums_combine(lengths: tuple[int, int]) -> None:
    first, second = (os.urandom(n) for n in lengths)
    whole = combine(google_crc32c.value(first), google_crc32c.value(second), len(second))
    assert whole == google_crc32c.value(first + second)


def test_a_slice_the_older_format_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    huge = np.broadcast_to(np.False_, (2, 1 << 30))
    for value, dtype in ((huge, dtypes.bool_), (np.broadcast_to(np.int32(1), (1 << 28,)), dtypes.int32)):
        piece = SliceToSave("v", value.shape, TensorSlice.full(value.ndim), value, dtype)
        with pytest.raises(InvalidArgumentError, match="Tensor slice is too large to serialize"):
            write_slice_table(str(tmp_path / "checkpoint"), [piece])
    assert not list(tmp_path.iterdir())
