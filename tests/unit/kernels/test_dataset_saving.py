"""Datasets in files: caches, saved ones and snapshots."""

from __future__ import annotations

from collections.abc import Iterator as Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.client.session import Session
from dtfctl.runtime.data import Dataset
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.errors import AlreadyExistsError, DataLossError, NotFoundError, OutOfRangeError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.ops import math_ops


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with Graph().as_default():
        yield


def elements(dataset: Dataset, most: int = 1000) -> list[Any]:
    following = dataset.make_initializable_iterator()
    tensors = following.get_next()
    out: list[Any] = []
    with Session() as session:
        session.run(following.initializer)
        try:
            while len(out) < most:
                out.append(session.run(tensors))
        except OutOfRangeError:
            pass
    return out


def numbers(dataset: Dataset, most: int = 1000) -> list[int]:
    return [int(e) for e in elements(dataset, most)]


def save(dataset: Dataset, *arguments: Any, **options: Any) -> None:
    with Session() as session:
        session.run(dataset.save(*arguments, **options))


def mixed() -> Dataset:
    return Dataset.from_tensor_slices(
        {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "y": np.array([b"a", b"", b"\0c", b"d" * 300])}
    )


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(p["x"], q["x"]) and p["y"] == q["y"] for p, q in zip(a, b))


# The cache in files.


def test_a_cache_in_files_outlives_its_session(tmp_path: Path) -> None:
    prefix = str(tmp_path / "folder" / "cache")
    assert same(elements(mixed().cache(prefix)), elements(mixed()))
    assert sorted(p.name for p in (tmp_path / "folder").iterdir()) == ["cache.data-00000-of-00001", "cache.index"]
    assert same(elements(mixed().take(0).cache(prefix)), elements(mixed()))


def test_a_cache_in_files_repeats(tmp_path: Path) -> None:
    dataset = Dataset.range(10).shuffle(10).cache(str(tmp_path / "cache")).repeat(2)
    got = numbers(dataset)
    assert got[:10] == got[10:] and sorted(got[:10]) == list(range(10))


def test_half_a_pass_leaves_no_cache(tmp_path: Path) -> None:
    iterator = Dataset.range(5).cache(str(tmp_path / "cache")).make_initializable_iterator()
    following = iterator.get_next()
    with Session() as session:
        for most in (3, 5):
            session.run(iterator.initializer)
            assert [session.run(following) for _ in range(most)] == list(range(most))
            assert not (tmp_path / "cache.index").exists()
        with pytest.raises(OutOfRangeError):
            session.run(following)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["cache.data-00000-of-00001", "cache.index"]


def test_two_passes_do_not_write_one_cache(tmp_path: Path) -> None:
    prefix = str(tmp_path / "cache")
    iterators = [Dataset.range(5).cache(prefix).make_initializable_iterator() for _ in range(2)]
    first, second = (iterator.get_next() for iterator in iterators)
    with Session() as session:
        session.run([iterator.initializer for iterator in iterators])
        assert session.run(first) == 0
        with pytest.raises(AlreadyExistsError, match=r"concurrent caching iterator.*cache_0\.lockfile"):
            session.run(second)
        assert session.run(first) == 1


# Saved datasets.


@pytest.mark.parametrize("compression", [None, "GZIP", "SNAPPY"])
def test_what_was_saved_is_loaded(tmp_path: Path, compression: str | None) -> None:
    dataset = mixed()
    save(dataset, str(tmp_path), compression=compression)
    spec = {"x": constant(np.zeros(3, np.float32)), "y": constant("")}
    assert same(elements(Dataset.load(str(tmp_path), spec, compression)), elements(dataset))


def test_shards_are_read_in_turn_or_as_asked(tmp_path: Path) -> None:
    save(Dataset.range(9), str(tmp_path), shard_func=lambda x: math_ops.floormod(x, 3))
    spec = constant(0, dtypes.int64)
    after_another = Dataset.load(str(tmp_path), spec, reader_func=lambda shards: shards.flat_map(lambda shard: shard))
    assert numbers(after_another) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert sorted(numbers(Dataset.load(str(tmp_path), spec))) == list(range(9))


def test_the_layout_is_tensorflows(tmp_path: Path) -> None:
    save(Dataset.range(4), str(tmp_path), shard_func=lambda x: math_ops.floormod(x, 2))
    (run,) = (p for p in tmp_path.iterdir() if p.is_dir())
    assert (tmp_path / "snapshot.metadata").exists()
    assert sorted(str(p.relative_to(run)) for p in run.rglob("*.snapshot")) == [
        "00000000.shard/00000000.snapshot",
        "00000001.shard/00000000.snapshot",
    ]


def test_a_folder_without_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="Could not find metadata file"):
        elements(Dataset.load(str(tmp_path), constant(0, dtypes.int64)))


def test_a_damaged_file(tmp_path: Path) -> None:
    save(Dataset.range(4), str(tmp_path))
    (file,) = tmp_path.rglob("*.snapshot")
    file.write_bytes(file.read_bytes()[:-6])
    with pytest.raises(DataLossError):
        elements(Dataset.load(str(tmp_path), constant(0, dtypes.int64)))


# Snapshots.


@pytest.mark.parametrize("compression", [None, "GZIP", "SNAPPY", "AUTO"])
def test_a_snapshot_is_written_once_and_read_again(tmp_path: Path, compression: str | None) -> None:
    def snapshot() -> Dataset:
        return Dataset.range(20).shuffle(20).snapshot(str(tmp_path), compression=compression)

    first = numbers(snapshot())
    assert sorted(first) == list(range(20))
    assert numbers(snapshot()) == numbers(snapshot()) == first
    assert len(list(tmp_path.rglob("snapshot.metadata"))) == 1


def test_half_a_snapshot_is_not_read(tmp_path: Path) -> None:
    def snapshot() -> Dataset:
        return Dataset.range(5).snapshot(str(tmp_path))

    assert numbers(snapshot(), 3) == [0, 1, 2]
    assert numbers(snapshot()) == numbers(snapshot()) == [0, 1, 2, 3, 4]


def test_different_datasets_share_a_folder(tmp_path: Path) -> None:
    def doubled(by: int) -> Dataset:
        return Dataset.range(4).map(lambda x: x * by).snapshot(str(tmp_path))

    assert numbers(doubled(2)) == numbers(doubled(2)) == [0, 2, 4, 6]
    assert numbers(doubled(3)) == numbers(doubled(3)) == [0, 3, 6, 9]
    assert len(list(tmp_path.rglob("snapshot.metadata"))) == 2


def test_shards_of_a_snapshot(tmp_path: Path) -> None:
    def snapshot() -> Dataset:
        return Dataset.range(6).snapshot(
            str(tmp_path),
            shard_func=lambda x: math_ops.floormod(x, 3),
            reader_func=lambda shards: shards.flat_map(lambda shard: shard),
        )

    assert numbers(snapshot()) == [0, 1, 2, 3, 4, 5]
    assert numbers(snapshot()) == [0, 3, 1, 4, 2, 5]
