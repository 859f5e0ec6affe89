"""Variables and scatters: values, texts and copies as TensorFlow has them."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from dtfctl.runtime.framework.node_graph import Edge, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.variable import Variable
from tests.support.interpreter import Interpreter


class Steps:
    """Ops on shared state, one a call, in one session."""

    def __init__(self) -> None:
        self.graph = NodeGraph()
        self.interpreter = Interpreter(self.graph)

    def node(self, op: str, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        signature = get_signature(op)
        edges = []
        for arg, value in zip(signature.inputs, inputs, strict=True):
            if isinstance(value, Edge):
                edges.append(value)
                continue
            array = np.asarray(value)
            dtype = arg.dtype or dtypes.as_dtype(array.dtype)
            if arg.type_attr:
                attrs.setdefault(arg.type_attr, dtype)
            source = self.graph.add(
                make_node(
                    f"const{len(self.graph)}",
                    "Const",
                    {"value": encode_attr("tensor", array), "dtype": encode_attr("type", dtype)},
                )
            )
            edges.append(Edge(source, 0))
        raw = {key: encode_attr(signature.attr_by_name[key].kind, value) for key, value in attrs.items()}
        return Edge(self.graph.add(make_node(name or f"n{len(self.graph)}", op, raw, edges)), 0)

    def run(self, edge: Any) -> Any:
        name = edge.node.name
        if edge.node.output_types:
            return self.interpreter.run([f"{name}:0"])[0]
        return self.interpreter.run([], {}, [name])


@pytest.fixture
def steps() -> Steps:
    return Steps()


def ref(steps: Steps, value: Any, name: str = "v") -> Any:
    array = np.asarray(value)
    dtype = dtypes.as_dtype(array.dtype)
    variable = steps.node("VariableV2", name=name, shape=array.shape, dtype=dtype)
    steps.run(steps.node("Assign", variable, array, T=dtype))
    return variable


def resource(steps: Steps, value: Any, name: str = "h") -> Any:
    array = np.asarray(value)
    dtype = dtypes.as_dtype(array.dtype)
    handle = steps.node("VarHandleOp", name=name, shape=array.shape, dtype=dtype, shared_name=name)
    steps.run(steps.node("AssignVariableOp", handle, array, dtype=dtype))
    return handle


def test_reading_before_assigning_names_the_variable(steps: Steps) -> None:
    variable = steps.node("VariableV2", name="v", shape=[2], dtype=dtypes.float32)
    with pytest.raises(FailedPreconditionError, match="Attempting to use uninitialized value v"):
        steps.run(variable)


def test_a_variable_without_elements_needs_no_initializer(steps: Steps) -> None:
    assert steps.run(steps.node("VariableV2", shape=[0, 3], dtype=dtypes.float32)).shape == (0, 3)


def test_assign_checks_the_shape_only_when_asked(steps: Steps) -> None:
    variable = steps.node("VariableV2", name="v", shape=[2], dtype=dtypes.float32)
    with pytest.raises(InvalidArgumentError, match=r"lhs shape= \[2\] rhs shape= \[3\]"):
        steps.run(steps.node("Assign", variable, np.zeros(3, np.float32)))
    steps.run(steps.node("Assign", variable, np.ones(3, np.float32), validate_shape=False))
    np.testing.assert_array_equal(steps.run(variable), [1, 1, 1])


def test_a_read_value_survives_later_updates(steps: Steps) -> None:
    variable = ref(steps, np.array([1.0, 2.0], np.float32))
    before = steps.run(variable)
    steps.run(steps.node("AssignAdd", variable, np.array([5.0, 5.0], np.float32)))
    np.testing.assert_array_equal(before, [1, 2])
    np.testing.assert_array_equal(steps.run(variable), [6, 7])


def test_an_unshared_variable_is_updated_in_place() -> None:
    variable = Variable(dtypes.float32, TensorShape([4]), "v")
    variable.assign(np.zeros(4, np.float32))
    addresses = [variable.read().ctypes.data]
    for _ in range(2):
        with variable.lock:
            variable.change(lambda a: addresses.append(a.ctypes.data))
            variable.update(lambda now, then: addresses.append(then.ctypes.data))
    assert len(addresses) == 5 and len(set(addresses)) == 1


def large_variable() -> Variable:
    variable = Variable(dtypes.float32, TensorShape([1 << 20]))
    variable.assign(np.zeros(1 << 20, np.float32))
    return variable


def test_memory_that_readers_have_let_go_of_is_copied_into() -> None:
    variable = large_variable()
    held = [variable.read()]
    first = held[0].ctypes.data
    with variable.lock:
        variable.change(lambda a: a.put(0, 1))
    assert held[0][0] == 0
    held.clear()
    held.append(variable.read())
    with variable.lock:
        variable.change(lambda a: a.put(1, 2))
    assert variable.read().ctypes.data == first
    assert variable.read()[:3].tolist() == [1, 2, 0] and held[0][:3].tolist() == [1, 0, 0]


def test_memory_that_readers_still_hold_is_not() -> None:
    variable = large_variable()
    held = []
    for _ in range(4):
        held.append(variable.read())
        with variable.lock:
            variable.change(lambda a: np.add(a, 1, a))
    assert [a[0] for a in held] == [0, 1, 2, 3] and variable.read()[0] == 4
    # A view of an array holds it too.
    part = held[-1][:1]
    del held[-1]
    held.append(variable.read())
    with variable.lock:
        variable.change(lambda a: a.put(0, 9))
    assert part[0] == 3


def test_a_value_that_is_assigned_leaves_no_memory_behind() -> None:
    variable = large_variable()
    held = variable.read()
    with variable.lock:
        variable.change(lambda a: a.put(0, 1))
    gone = weakref.ref(held)
    variable.assign(np.ones(1 << 20, np.float32))
    del held
    assert gone() is None


def test_count_up_to_gives_the_value_before_and_stops_at_the_limit(steps: Steps) -> None:
    counter = ref(steps, np.int32(0))
    count = steps.node("CountUpTo", counter, limit=2, T=dtypes.int32)
    assert [int(steps.run(count)), int(steps.run(count))] == [0, 1]
    with pytest.raises(OutOfRangeError, match="Reached limit of 2"):
        steps.run(count)


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("Add", [10, 25, 30]),
        ("Sub", [10, 15, 30]),
        ("Mul", [10, 120, 30]),
        ("Div", [10, 3, 30]),
        ("Min", [10, 2, 30]),
        ("Max", [10, 20, 30]),
        ("Update", [10, 3, 30]),
    ],
)
def test_repeated_indices_are_applied_one_after_the_other(steps: Steps, kind: str, want: list[int]) -> None:
    variable = ref(steps, np.array([10, 20, 30], np.int32))
    steps.run(
        steps.node(
            f"Scatter{kind}",
            variable,
            np.array([1, 1]),
            np.array([2, 3], np.int32),
            T=dtypes.int32,
        )
    )
    np.testing.assert_array_equal(steps.run(variable), want)


def test_many_repetitions_are_summed(steps: Steps) -> None:
    variable = resource(steps, np.zeros((3, 2), np.float32))
    indices = np.array([2] * 100 + [0])
    steps.run(steps.node("ResourceScatterAdd", variable, indices, np.ones((101, 2), np.float32)))
    read = steps.node("ReadVariableOp", variable, dtype=dtypes.float32)
    np.testing.assert_array_equal(steps.run(read), [[1, 1], [0, 0], [100, 100]])


def test_integer_division_truncates_and_refuses_zero(steps: Steps) -> None:
    variable = resource(steps, np.array([-7, 7], np.int32))
    steps.run(steps.node("ResourceScatterDiv", variable, np.array([0, 1]), np.array([2, -2], np.int32)))
    read = steps.node("ReadVariableOp", variable, dtype=dtypes.int32)
    np.testing.assert_array_equal(steps.run(read), [-3, -3])
    with pytest.raises(InvalidArgumentError, match="updates must not contain 0"):
        steps.run(steps.node("ResourceScatterDiv", variable, np.array([0]), np.array([0], np.int32)))


def test_an_index_outside_changes_nothing(steps: Steps) -> None:
    variable = ref(steps, np.zeros(3, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 7 is not in \[0, 3\)"):
        steps.run(steps.node("ScatterAdd", variable, np.array([0, 7]), np.ones(2, np.float32), T=dtypes.float32))
    np.testing.assert_array_equal(steps.run(variable), [0, 0, 0])


def test_scatter_nd_updates_slices(steps: Steps) -> None:
    variable = resource(steps, np.zeros((2, 2, 3), np.float32))
    steps.run(steps.node("ResourceScatterNdAdd", variable, np.array([[0, 1], [0, 1]]), np.ones((2, 3), np.float32)))
    value = steps.run(steps.node("ReadVariableOp", variable, dtype=dtypes.float32))
    np.testing.assert_array_equal(value[0, 1], [2, 2, 2])
    assert value.sum() == 6
    with pytest.raises(InvalidArgumentError, match=r"indices\[0\] = \[5, 0\] does not index into shape \[2,2,3\]"):
        steps.run(steps.node("ResourceScatterNdAdd", variable, np.array([[5, 0]]), np.ones((1, 3), np.float32)))


def test_resource_variable_life(steps: Steps) -> None:
    handle = steps.node("VarHandleOp", shape=[2], dtype=dtypes.float32, shared_name="w")
    exists = steps.node("VarIsInitializedOp", handle)
    read = steps.node("ReadVariableOp", handle, dtype=dtypes.float32)
    assert not steps.run(exists)
    with pytest.raises(FailedPreconditionError, match=r"Could not find variable w\. This could mean"):
        steps.run(read)
    with pytest.raises(NotFoundError):
        steps.run(steps.node("AssignAddVariableOp", handle, np.zeros(2, np.float32)))
    steps.run(steps.node("AssignVariableOp", handle, np.array([1, 2], np.float32)))
    assert steps.run(exists)
    np.testing.assert_array_equal(steps.run(read), [1, 2])
    with pytest.raises(InvalidArgumentError, match=r"wrong dtype\. Expected int32 got float"):
        steps.run(steps.node("ReadVariableOp", handle, dtype=dtypes.int32))
    steps.run(steps.node("DestroyResourceOp", handle))
    assert not steps.run(exists)
    with pytest.raises(NotFoundError):
        steps.run(steps.node("DestroyResourceOp", handle, ignore_lookup_error=False))


def test_resource_gather_with_batch_dimensions(steps: Steps) -> None:
    handle = resource(steps, np.arange(6, dtype=np.float32).reshape(2, 3))
    gather = steps.node("ResourceGather", handle, np.array([[2, 0], [1, 1]]), dtype=dtypes.float32, batch_dims=1)
    np.testing.assert_array_equal(steps.run(gather), [[2, 0], [4, 4]])


def test_concurrent_updates_are_all_counted() -> None:
    from dtfctl.runtime.kernels.state.scatter_update import scatter_rows

    variable = Variable(dtypes.int64, TensorShape([2]), "v")
    variable.assign(np.zeros(2, np.int64))

    def work() -> None:
        for _ in range(200):
            with variable.lock:
                variable.change(lambda a: scatter_rows(a, np.array([1]), np.array([1]), "Add"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert variable.read().tolist() == [0, 800]
