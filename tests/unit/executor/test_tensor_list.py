"""TensorLists: persistent storage, and the ops on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.control.persistent_list import PersistentList
from tests.unit.executor.harness import GraphText, Runner

F = np.float32
UNKNOWN = np.int32(-1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 50), st.integers(0, 9)), max_size=60))
def test_every_version_keeps_its_items(steps: list[tuple[int, int, int, int]]) -> None:
    """Changes to any version, old or new, against plain copies."""
    versions: list[tuple[PersistentList, list[int]]] = [(PersistentList([1, 2, 3]), [1, 2, 3])]
    for what, which, index, value in steps:
        held, plain = versions[which % len(versions)]
        if what == 0:
            versions.append((held.append(value), [*plain, value]))
        elif what == 1 and plain:
            versions.append((held.pop(), plain[:-1]))
        elif what == 2 and plain:
            i = index % len(plain)
            versions.append((held.set(i, value), [*plain[:i], value, *plain[i + 1 :]]))
        else:
            assert held.to_list() == plain
    for held, plain in reversed(versions):
        assert held.to_list() == plain
        assert len(held) == len(plain)


def test_long_chains_of_versions_end_well() -> None:
    first = held = PersistentList()
    for i in range(200_000):
        held = held.append(i)
    assert len(first.to_list()) == 0
    assert len(held.to_list()) == 200_000
    del first, held


class Lists:
    """A graph of list ops."""

    def __init__(self) -> None:
        self.g = GraphText()
        self.g.const("any", UNKNOWN)

    def reserve(self, name: str, size: int, shape: Any = UNKNOWN) -> str:
        self.g.const(f"{name}/shape", shape, np.int32)
        self.g.const(f"{name}/size", np.int32(size))
        attrs = {"element_dtype": "float32", "shape_type": "int32"}
        return self.g.add(name, "TensorListReserve", f"{name}/shape", f"{name}/size", **attrs)

    def set(self, name: str, handle: str, index: int, value: Any) -> str:
        self.g.const(f"{name}/i", np.int32(index))
        self.g.const(f"{name}/v", value, F)
        return self.g.add(name, "TensorListSetItem", handle, f"{name}/i", f"{name}/v", element_dtype="float32")

    def stack(self, name: str, handle: str, shape: str = "any") -> str:
        self.g.add(name, "TensorListStack", handle, shape, element_dtype="float32")
        return f"{name}:0"

    def run(self, *fetches: str) -> list[Any]:
        return Runner(self.g.proto).run(list(fetches))


def test_a_changed_list_leaves_the_old_one_as_it_was() -> None:
    t = Lists()
    t.reserve("l", 2)
    t.set("a", "l", 0, [1, 2])
    t.set("b", "a", 1, [3, 4])
    t.set("c", "a", 1, [5, 6])
    got = t.run(t.stack("sb", "b"), t.stack("sc", "c"), t.stack("sa", "a"))
    assert [g.tolist() for g in got] == [[[1, 2], [3, 4]], [[1, 2], [5, 6]], [[1, 2], [0, 0]]]


def test_unset_items_need_a_shape() -> None:
    t = Lists()
    t.reserve("l", 2)
    with pytest.raises(InvalidArgumentError, match="non-fully-defined element_shape"):
        t.run(t.stack("s", "l"))
    t = Lists()
    t.reserve("l", 2, [3])
    assert t.run(t.stack("s", "l"))[0].tolist() == [[0, 0, 0]] * 2


def test_items_must_fit_the_list() -> None:
    t = Lists()
    t.reserve("l", 2, [3])
    t.set("a", "l", 0, [1, 2])
    with pytest.raises(InvalidArgumentError, match=r"incompatible shape at a list index.*\[2\] list shape: \[3\]"):
        t.run(t.stack("s", "a"))
    t = Lists()
    t.reserve("l", 2)
    t.set("a", "l", 2, [1, 2])
    with pytest.raises(InvalidArgumentError, match="Trying to modify element 2 in a list with 2 elements"):
        t.run(t.stack("s", "a"))


def test_push_pop_and_limits() -> None:
    t = Lists()
    t.g.const("most", np.int32(1))
    t.g.add("l", "EmptyTensorList", "any", "most", element_dtype="float32", shape_type="int32")
    t.g.const("x", F(3))
    t.g.add("one", "TensorListPushBack", "l", "x", element_dtype="float32")
    t.g.add("two", "TensorListPushBack", "one", "x", element_dtype="float32")
    t.g.add("pop", "TensorListPopBack", "one", "any", element_dtype="float32")
    t.g.add("length", "TensorListLength", "pop")
    t.g.add("none", "TensorListPopBack", "pop", "any", element_dtype="float32")
    assert [float(v) for v in t.run("pop:1", "length:0")] == [3, 0]
    with pytest.raises(InvalidArgumentError, match="full list"):
        t.run(t.stack("s", "two"))
    with pytest.raises(InvalidArgumentError, match="empty list"):
        t.run("none:1")


def test_concat_and_split_are_inverse() -> None:
    t = Lists()
    t.g.const("rows", np.arange(10).reshape(5, 2), F)
    t.g.const("lengths", np.array([2, 0, 3], np.int64))
    attrs = {"element_dtype": "float32", "shape_type": "int32"}
    t.g.add("split", "TensorListSplit", "rows", "any", "lengths", **attrs)
    t.g.const("dims", np.array([], np.int64))
    t.g.add("back", "TensorListConcatV2", "split", "any", "dims", **attrs)
    rows, lengths = t.run("back:0", "back:1")
    np.testing.assert_array_equal(rows, np.arange(10).reshape(5, 2))
    assert lengths.tolist() == [2, 0, 3]


def test_sums_and_zeros_of_lists() -> None:
    t = Lists()
    t.reserve("l", 2, [2])
    t.set("a", "l", 0, [1, 2])
    t.set("b", "a", 1, [3, 4])
    t.g.add("sum", "AddN", "a", "b", T="variant", N=2)
    t.g.add("zeros", "ZerosLike", "b", T="variant")
    got = t.run(t.stack("s", "sum"), t.stack("z", "zeros"))
    assert [g.tolist() for g in got] == [[[2, 4], [3, 4]], [[0, 0], [0, 0]]]


def test_gather_and_scatter() -> None:
    t = Lists()
    t.g.const("rows", np.arange(6).reshape(3, 2), F)
    t.g.const("indices", np.array([4, 0, 2], np.int32))
    t.g.const("n", np.int32(6))
    attrs = {"element_dtype": "float32", "shape_type": "int32"}
    t.g.add("l", "TensorListScatterV2", "rows", "indices", "any", "n", **attrs)
    t.g.add("got", "TensorListGather", "l", "indices", "any", element_dtype="float32")
    t.g.const("two", np.array([2], np.int32))
    t.g.add("all", "TensorListStack", "l", "two", element_dtype="float32")
    got, everything = t.run("got:0", "all:0")
    np.testing.assert_array_equal(got, np.arange(6).reshape(3, 2))
    assert everything.tolist() == [[2, 3], [0, 0], [4, 5], [0, 0], [0, 1], [0, 0]]


def test_maps() -> None:
    g = GraphText()
    g.add("m", "EmptyTensorMap")
    for name, value in (("k1", [1.0, 2.0]), ("k2", [3.0, 4.0]), ("v1", 10.0), ("v2", 20.0)):
        g.const(name, value, F)
    types = {"key_dtype": "float32", "value_dtype": "float32"}
    g.add("a", "TensorMapInsert", "m", "k1", "v1", **types)
    g.add("b", "TensorMapInsert", "a", "k2", "v2", **types)
    g.add("size", "TensorMapSize", "b")
    g.add("get", "TensorMapLookup", "b", "k2", **types)
    g.add("has", "TensorMapHasKey", "a", "k2", key_dtype="float32")
    g.add("gone", "TensorMapErase", "b", "k1", **types)
    g.add("keys", "TensorMapStackKeys", "gone", key_dtype="float32")
    g.add("missing", "TensorMapLookup", "a", "k2", **types)
    runner = Runner(g.proto)
    got = runner.run(["size:0", "get:0", "has:0", "keys:0"])
    assert [v.tolist() for v in got] == [2, 20, False, [[3, 4]]]
    with pytest.raises(InvalidArgumentError, match="non-existent key"):
        runner.run(["missing:0"])
