"""Calls whose bodies ask for devices are put in the caller's place, with the call's name still to be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.compile import CompileOptions
from dtfctl.runtime.compiler.functions import instantiate
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from tests.unit.compiler.harness import TWO_TASKS, Cluster
from tests.unit.executor.harness import GraphText

ON_PS = "/job:ps/task:0"


def function(
    name: str, inputs: list[str], outputs: dict[str, str], *nodes: tuple[str, str, list[str], str], **more: Any
) -> graph_pb2.FunctionDef:
    """A function of float arguments; nodes are (name, op, inputs, device), all of type float."""
    f = graph_pb2.FunctionDef()
    f.signature.name = name
    for arg in inputs:
        f.signature.input_arg.add(name=arg, type=more.get("types", {}).get(arg, 1))
    for out, source in outputs.items():
        f.signature.output_arg.add(name=out, type=more.get("types", {}).get(out, 1))
        f.ret[out] = source
    for node_name, op, sources, device in nodes:
        node = f.node_def.add(name=node_name, op=op, input=sources, device=device)
        if op == "Const":
            node.attr["dtype"].type = 1
            node.attr["value"].tensor.dtype = 1
            node.attr["value"].tensor.tensor_shape.SetInParent()
            node.attr["value"].tensor.float_val.append(more.get("value", 1.0))
        elif op != "NoOp":
            node.attr["T"].type = 1
    return f


def graph(*functions: graph_pb2.FunctionDef) -> GraphText:
    g = GraphText()
    g.proto.library.function.extend(functions)
    g.add("x", "Placeholder", dtype="float32")
    return g


def ops(cluster: Cluster) -> list[str]:
    return [n.op for n in cluster.prepared.graph]


F = function("f", ["a"], {"r": "n:y:0"}, ("n", "Neg", ["a"], ON_PS))


@pytest.mark.parametrize("op", ["f", "PartitionedCall", "StatefulPartitionedCall"])
def test_a_function_that_asks_for_devices_is_inlined(op: str) -> None:
    g = graph(F)
    node = g.proto.node.add(name="call", op=op, input=["x"])
    if op != "f":
        node.attr["f"].func.name = "f"
        node.attr["Tin"].list.type.append(1)
        node.attr["Tout"].list.type.append(1)
    g.add("y", "Neg", "call", T="float32")
    cluster = Cluster(g.proto)
    assert op not in ops(cluster)
    assert cluster.prepared.placement["call/n"] == TWO_TASKS[1]
    feeds = {"x:0": np.float32(3)}
    assert cluster.run(["y:0", "call:0"], feeds) == [3.0, -3.0]
    # The call can still be fed.
    assert cluster.run(["y:0"], {"call:0": np.float32(7)}) == [-7.0]


def test_other_functions_stay_calls() -> None:
    g = graph(function("f", ["a"], {"r": "n:y:0"}, ("n", "Neg", ["a"], "")))
    g.proto.node.add(name="call", op="f", input=["x"])
    assert "f" in ops(Cluster(g.proto))
    inlined = Cluster(g.proto, options=CompileOptions(expand_all_calls=True))
    assert "f" not in ops(inlined)
    assert inlined.run(["call:0"], {"x:0": np.float32(2)}) == [-2.0]


def test_noinline_is_respected() -> None:
    f = graph_pb2.FunctionDef()
    f.CopyFrom(F)
    f.attr["_noinline"].b = True
    g = graph(f)
    g.proto.node.add(name="call", op="f", input=["x"])
    assert "f" in ops(Cluster(g.proto))


def test_recursion_stays_a_call() -> None:
    f = function("f", ["a"], {"r": "again:r:0"}, ("n", "Neg", ["a"], ON_PS), ("again", "f", ["n:y:0"], ""))
    del f.node_def[1].attr["T"]
    g = graph(f)
    g.proto.node.add(name="call", op="f", input=["x"])
    assert ops(Cluster(g.proto)).count("f") == 1


def test_what_a_call_waits_for_its_body_waits_for_and_what_waits_for_it_waits_for_the_body() -> None:
    f = function("f", [], {"r": "k:output:0"}, ("k", "Const", [], ON_PS), ("effect", "NoOp", ["^k"], ""))
    f.control_ret["effect"] = "effect"
    f.signature.control_output.append("effect")
    g = graph(f)
    g.add("first", "NoOp")
    g.proto.node.add(name="call", op="f", input=["^first"])
    g.add("after", "NoOp", "^call")
    expanded = Cluster(g.proto).prepared.graph
    gate = expanded.nodes["call/k"].control_inputs[0]
    assert expanded.nodes["first"] in gate.control_inputs
    assert expanded.nodes["call/effect"] in expanded.nodes["call"].control_inputs
    assert expanded.nodes["after"].control_inputs == [expanded.nodes["call"]]


THEN = function("then", ["a"], {"r": "n:y:0"}, ("n", "Exp", ["a"], ON_PS))
ELSE = function("else", ["a"], {"r": "n:y:0"}, ("n", "Neg", ["a"], ""))


@pytest.mark.parametrize(("pred", "want"), [(True, np.exp(np.float32(2))), (False, -2.0)])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_if_becomes_switch_and_merge(pred: bool, want: float, dtype: str) -> None:
    g = graph(THEN, ELSE)
    g.add("p", "Placeholder", dtype=dtype)
    node = g.proto.node.add(name="if", op="If", input=["p", "x"])
    node.attr["Tcond"].type = dtypes.as_dtype(dtype).as_datatype_enum
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["then_branch"].func.name = "then"
    node.attr["else_branch"].func.name = "else"
    g.add("y", "Identity", "if", T="float32")
    g.add("after", "NoOp", "^if")
    cluster = Cluster(g.proto)
    assert "If" not in ops(cluster)
    feeds = {"x:0": np.float32(2), "p:0": np.asarray(pred, dtypes.as_dtype(dtype).np)}
    np.testing.assert_allclose(cluster.run(["y:0"], feeds, ["after"])[0], want, rtol=1e-6)


@pytest.mark.parametrize(("index", "want"), [(0, -2.0), (1, np.exp(np.float32(2))), (5, np.exp(np.float32(2)))])
def test_case_out_of_range_takes_the_last_branch(index: int, want: float) -> None:
    g = graph(THEN, ELSE)
    g.add("i", "Placeholder", dtype="int32")
    node = g.proto.node.add(name="case", op="Case", input=["i", "x"])
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["branches"].list.func.add(name="else")
    node.attr["branches"].list.func.add(name="then")
    cluster = Cluster(g.proto)
    assert "Case" not in ops(cluster)
    got = cluster.run(["case:0"], {"x:0": np.float32(2), "i:0": np.int32(index)})
    np.testing.assert_allclose(got[0], want, rtol=1e-6)


@pytest.mark.parametrize(("start", "want"), [(0.0, 5.0), (9.0, 9.0)])
def test_while_becomes_a_loop_over_two_tasks(start: float, want: float) -> None:
    cond = function(
        "cond",
        ["a"],
        {"r": "l:z:0"},
        ("k", "Const", [], ""),
        ("l", "Less", ["a", "k:output:0"], ""),
        types={"r": 10},
        value=5.0,
    )
    body = function("body", ["a"], {"r": "s:z:0"}, ("k", "Const", [], ""), ("s", "AddV2", ["a", "k:output:0"], ON_PS))
    g = graph(cond, body)
    node = g.proto.node.add(name="while", op="While", input=["x"])
    node.attr["T"].list.type.append(1)
    node.attr["cond"].func.name = "cond"
    node.attr["body"].func.name = "body"
    g.add("y", "Identity", "while", T="float32")
    cluster = Cluster(g.proto)
    assert "While" not in ops(cluster)
    assert cluster.run(["y:0"], {"x:0": np.float32(start)}) == [want]


def test_instantiation_refuses_what_is_malformed() -> None:
    library = FunctionLibrary()
    with pytest.raises(NotFoundError, match="Function nobody is not defined"):
        instantiate(library, "nobody", {})
    broken = function("broken", ["a"], {"r": "nobody:y:0"}, ("n", "Neg", ["a"], ""))
    library.functions["broken"] = broken
    with pytest.raises(InvalidArgumentError, match="unknown input 'nobody:y:0'"):
        instantiate(library, "broken", {})
    del broken.ret["r"]
    with pytest.raises(InvalidArgumentError, match="output 'r' is not returned"):
        instantiate(library, "broken", {})


def test_attributes_are_substituted() -> None:
    f = function("g", ["a"], {"r": "n:y:0"}, ("n", "Neg", ["a"], ""))
    f.signature.attr.add(name="T", type="type")
    for arg in (*f.signature.input_arg, *f.signature.output_arg):
        arg.type, arg.type_attr = 0, "T"
    f.node_def[0].attr["T"].placeholder = "T"
    library = FunctionLibrary()
    library.functions["g"] = f
    body = instantiate(library, "g", {"T": graph_pb2.AttrValue(type=2)})
    assert body.graph.nodes["n"].output_types == (dtypes.float64,)
    with pytest.raises(InvalidArgumentError):
        instantiate(library, "g", {})


def test_a_call_that_is_not_expanded_runs_where_its_resource_is() -> None:
    f = function("f", ["h"], {"r": "read:value:0"}, ("read", "ReadVariableOp", ["h"], ""), types={"h": 20})
    del f.node_def[0].attr["T"]
    f.node_def[0].attr["dtype"].type = 1
    g = graph(f)
    g.add("v", "VarHandleOp", dtype="float32", shape=[])
    g.proto.node[-1].device = ON_PS
    call = g.proto.node.add(name="call", op="PartitionedCall", input=["v"])
    call.attr["f"].func.name = "f"
    call.attr["Tin"].list.type.append(20)
    call.attr["Tout"].list.type.append(1)
    cluster = Cluster(g.proto)
    assert cluster.prepared.placement["call"] == TWO_TASKS[1]
    # Asked to be elsewhere, it is expanded, and only what reads the variable goes there.
    call.device = "/job:worker"
    cluster = Cluster(g.proto)
    assert "PartitionedCall" not in ops(cluster)
    assert cluster.prepared.placement["call/read"] == TWO_TASKS[1]


def test_a_branch_of_other_results_is_refused() -> None:
    two = function("two", ["a"], {"r": "n:y:0", "s": "n:y:0"}, ("n", "Exp", ["a"], ON_PS))
    g = graph(two, ELSE)
    g.add("p", "Placeholder", dtype="bool")
    node = g.proto.node.add(name="if", op="If", input=["p", "x"])
    node.attr["Tcond"].type = 10
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["then_branch"].func.name = "two"
    node.attr["else_branch"].func.name = "else"
    with pytest.raises(InvalidArgumentError, match=r"'if' gives \[float32, float32\], expected \[float32\]"):
        Cluster(g.proto)
