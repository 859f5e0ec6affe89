"""Functions: calls, functional control flow, recursion, state."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError, OpError
from dtfctl.runtime.kernels.control.py_func import register_py_func, unregister_py_func
from tests.unit.executor.harness import GraphText, Runner

F = np.float32


def function(
    g: GraphText, name: str, args: dict[str, str], results: dict[str, tuple[str, str]], body: GraphText
) -> graph_pb2.NameAttrList:
    """Add a function: argument types, results as name -> (type, body output), body nodes."""
    proto = g.proto.library.function.add()
    proto.signature.name = name
    for arg, dtype in args.items():
        proto.signature.input_arg.add(name=arg, type=_number(dtype))
    for result, (dtype, source) in results.items():
        proto.signature.output_arg.add(name=result, type=_number(dtype))
        proto.ret[result] = source
    proto.node_def.extend(body.proto.node)
    return graph_pb2.NameAttrList(name=name)


def _number(dtype: str) -> Any:
    from dtfctl.runtime.framework.dtypes import as_dtype

    return as_dtype(dtype).as_datatype_enum


def test_calls_nest_and_a_function_may_be_an_op() -> None:
    g = GraphText()
    body = GraphText()
    body.add("sq", "Square", "x", T="float32")
    square = function(g, "Sq", {"x": "float32"}, {"y": ("float32", "sq:y:0")}, body)
    body = GraphText()
    body.add("call", "PartitionedCall", "x", Tin=["float32"], Tout=["float32"], f=square)
    body.add("neg", "Neg", "call:output:0", T="float32")
    outer = function(g, "NegSq", {"x": "float32"}, {"y": ("float32", "neg:y:0")}, body)
    g.add("x", "Placeholder", dtype="float32")
    g.add("a", "StatefulPartitionedCall", "x", Tin=["float32"], Tout=["float32"], f=outer)
    g.add("b", "NegSq", "a")
    assert float(Runner(g.proto).run(["b:0"], {"x:0": F(2)})[0]) == -16


def branches(g: GraphText) -> list[graph_pb2.NameAttrList]:
    out = []
    for i, op in enumerate(("Neg", "Square", "Exp")):
        body = GraphText()
        body.add("n", op, "x", T="float32")
        out.append(function(g, f"Branch{i}", {"x": "float32"}, {"y": ("float32", "n:y:0")}, body))
    return out


def test_if_and_case_run_one_branch() -> None:
    g = GraphText()
    neg, square, exp = branches(g)
    g.add("p", "Placeholder", dtype="bool")
    g.add("i", "Placeholder", dtype="int32")
    g.add("x", "Placeholder", dtype="float32")
    types = {"Tin": ["float32"], "Tout": ["float32"]}
    g.add("if", "If", "p", "x", Tcond="bool", then_branch=neg, else_branch=square, **types)
    g.add("case", "StatelessCase", "i", "x", branches=[neg, square, exp], **types)
    g.add("text", "StatelessIf", "s", "x", Tcond="string", then_branch=neg, else_branch=square, **types)
    g.add("s", "Placeholder", dtype="string")
    runner = Runner(g.proto)
    x = {"x:0": F(3)}
    assert [float(runner.run(["if:0"], {"p:0": np.bool_(p), **x})[0]) for p in (True, False)] == [-3, 9]
    got = [float(runner.run(["case:0"], {"i:0": np.int32(i), **x})[0]) for i in (0, 1, 2, 3, -1)]
    assert got == pytest.approx([-3, 9, np.exp(3), np.exp(3), np.exp(3)])
    texts = [np.array(t, object) for t in (b"", b"yes")]
    assert [float(runner.run(["text:0"], {"s:0": t, **x})[0]) for t in texts] == [9, -3]
    assert runner.executor(["p:0", "x:0"], ["if:0"]).plan.engine == "straight"


def test_while_carries_its_variables() -> None:
    g = GraphText()
    cond = GraphText()
    cond.const("ten", np.int32(10))
    cond.add("less", "Less", "i", "ten:output:0", T="int32")
    args = {"i": "int32", "x": "float32"}
    c = function(g, "Cond", args, {"go": ("bool", "less:z:0")}, cond)
    body = GraphText()
    body.const("one", np.int32(1))
    body.add("add", "AddV2", "i", "one:output:0", T="int32")
    body.add("double", "AddV2", "x", "x", T="float32")
    b = function(g, "Body", args, {"j": ("int32", "add:z:0"), "y": ("float32", "double:z:0")}, body)
    g.add("i", "Placeholder", dtype="int32")
    g.const("x", F(1))
    g.add("w", "While", "i", "x", T=["int32", "float32"], cond=c, body=b)
    runner = Runner(g.proto)
    assert [float(v) for v in runner.run(["w:0", "w:1"], {"i:0": np.int32(3)})] == [10, 128]
    assert [float(v) for v in runner.run(["w:0", "w:1"], {"i:0": np.int32(11)})] == [11, 1]


def recursive(stop: bool) -> GraphText:
    """f(n) = n <= 0 ? 0 : n + f(n - 1), or without end."""
    g = GraphText()
    types = {"Tin": ["int32"], "Tout": ["int32"]}
    body = GraphText()
    body.const("one", np.int32(1))
    body.add("less", "Sub", "n", "one:output:0", T="int32")
    body.add("call", "PartitionedCall", "less:z:0", f=graph_pb2.NameAttrList(name="SumTo"), **types)
    body.add("sum", "AddV2", "call:output:0", "n", T="int32")
    more = function(g, "More", {"n": "int32"}, {"r": ("int32", "sum:z:0")}, body)
    body = GraphText()
    body.add("id", "Identity", "n", T="int32")
    end = function(g, "End", {"n": "int32"}, {"r": ("int32", "id:output:0")}, body)
    body = GraphText()
    body.const("zero", np.int32(0))
    body.add("go", "Greater" if stop else "LessEqual", "n", "zero:output:0", T="int32")
    body.add("if", "If", "go:z:0", "n", Tcond="bool", then_branch=more, else_branch=end if stop else more, **types)
    function(g, "SumTo", {"n": "int32"}, {"r": ("int32", "if:output:0")}, body)
    g.add("n", "Placeholder", dtype="int32")
    g.add("f", "SumTo", "n")
    return g


def test_functions_may_recurse() -> None:
    assert int(Runner(recursive(True).proto).run(["f:0"], {"n:0": np.int32(60)})[0]) == 1830


def test_endless_recursion_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="recurses too far") as caught:
        Runner(recursive(False).proto).run(["f:0"], {"n:0": np.int32(1)})
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("\n") < 200, "a traceback of thousands of frames"


def test_errors_name_the_node_of_the_body() -> None:
    g = GraphText()
    body = GraphText()
    body.add("product", "MatMul", "x", "x", T="float32")
    f = function(g, "Bad", {"x": "float32"}, {"y": ("float32", "product:product:0")}, body)
    g.add("x", "Placeholder", dtype="float32")
    g.add("call", "PartitionedCall", "x", Tin=["float32"], Tout=["float32"], f=f)
    with pytest.raises(InvalidArgumentError) as raised:
        Runner(g.proto).run(["call:0"], {"x:0": np.ones((2, 3), F)})
    assert raised.value.node == "product"


def test_missing_functions_are_reported() -> None:
    g = GraphText()
    g.const("x", F(1))
    missing = graph_pb2.NameAttrList(name="Nowhere")
    g.add("call", "PartitionedCall", "x", Tin=["float32"], Tout=["float32"], f=missing)
    with pytest.raises(NotFoundError, match="Nowhere"):
        Runner(g.proto).run(["call:0"])


def test_waiting_inside_a_function_makes_its_caller_wait() -> None:
    """The dequeue inside the function must not hold back the enqueue beside the call."""
    g = GraphText()
    body = GraphText()
    body.add("get", "QueueDequeueV2", "q", component_types=["float32"])
    f = function(g, "Get", {"q": "resource"}, {"y": ("float32", "get:components:0")}, body)
    g.add("q", "FIFOQueueV2", component_types=["float32"], capacity=1)
    g.add("call", "StatefulPartitionedCall", "q", Tin=["resource"], Tout=["float32"], f=f)
    g.const("x", F(8))
    g.add("put", "QueueEnqueueV2", "q", "x", Tcomponents=["float32"])
    assert float(Runner(g.proto).run(["call:0"], targets=["put"])[0]) == 8


def test_stateful_kernels_of_two_functions_do_not_mix() -> None:
    """Two functions whose bodies use the same node name keep their own generators."""
    g = GraphText()
    for name, seed in (("A", 1), ("B", 2)):
        body = GraphText()
        body.const("shape", np.array([4], np.int32))
        body.add("random", "RandomUniform", "shape:output:0", T="int32", dtype="float32", seed=seed, seed2=seed)
        f = function(g, name, {}, {"y": ("float32", "random:output:0")}, body)
        g.add(f"call{name}", "StatefulPartitionedCall", Tin=[], Tout=["float32"], f=f)
    runner = Runner(g.proto)
    first = runner.run(["callA:0", "callB:0"])
    second = runner.run(["callA:0", "callB:0"])
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], second[0])
    again = Runner(g.proto)
    np.testing.assert_array_equal(again.run(["callB:0"])[0], first[1])


def test_map_defun_runs_on_every_row() -> None:
    g = GraphText()
    body = GraphText()
    body.add("sum", "AddV2", "x", "c", T="float32")
    f = function(g, "Row", {"x": "float32", "c": "float32"}, {"y": ("float32", "sum:z:0")}, body)
    g.add("x", "Placeholder", dtype="float32")
    g.const("c", F(10))
    attrs = {"Targuments": ["float32"], "Tcaptured": ["float32"], "output_types": ["float32"], "f": f}
    g.add("m", "MapDefun", "x", "c", output_shapes=[[2]], **attrs)
    runner = Runner(g.proto)
    got = runner.run(["m:0"], {"x:0": np.arange(6, dtype=F).reshape(3, 2)})[0]
    np.testing.assert_array_equal(got, np.arange(6).reshape(3, 2) + 10)
    assert runner.run(["m:0"], {"x:0": np.zeros((0, 2), F)})[0].shape == (0, 2)
    with pytest.raises(InvalidArgumentError, match="retval shape"):
        runner.run(["m:0"], {"x:0": np.zeros((2, 3), F)})


def test_for_counts_through_its_range() -> None:
    g = GraphText()
    body = GraphText()
    body.add("sum", "AddV2", "i", "x", T="int32")
    f = function(g, "AddUp", {"i": "int32", "x": "int32"}, {"y": ("int32", "sum:z:0")}, body)
    for name, value in (("start", 7), ("limit", 0), ("delta", -3), ("x", 100)):
        g.const(name, np.int32(value))
    g.add("f", "For", "start", "limit", "delta", "x", T=["int32"], body=f)
    assert int(Runner(g.proto).run(["f:0"])[0]) == 100 + 7 + 4 + 1


def py_func_graph(token: str, out: str = "float32") -> Runner:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("f", "PyFunc", "x", token=token, Tin=["float32"], Tout=[out])
    return Runner(g.proto)


def test_python_functions_run_where_they_were_registered() -> None:
    token = register_py_func(lambda x: x * 2)
    assert float(py_func_graph(token).run(["f:0"], {"x:0": F(4)})[0]) == 8
    text = register_py_func(lambda x: f"<{x:.0f}>")
    assert py_func_graph(text, "string").run(["f:0"], {"x:0": F(4)})[0].item() == b"<4>"
    unregister_py_func(token)
    with pytest.raises(NotFoundError, match="not registered in this process"):
        py_func_graph(token).run(["f:0"], {"x:0": F(4)})


def test_python_functions_must_return_the_declared_type() -> None:
    token = register_py_func(lambda x: np.float64(x))
    with pytest.raises(InvalidArgumentError, match="is double, but expects float"):
        py_func_graph(token).run(["f:0"], {"x:0": F(4)})

    def fail(x: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(OpError, match="RuntimeError: no") as raised:
        py_func_graph(register_py_func(fail)).run(["f:0"], {"x:0": F(4)})
    assert raised.value.node == "f"
