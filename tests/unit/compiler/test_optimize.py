"""Each rewrite does what it says, is switched off as clients ask, and leaves alone what it must."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2
from dtfctl.runtime.compiler.compile import CompileOptions
from dtfctl.runtime.compiler.optimize import Rewrites
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.unit.compiler.harness import TWO_TASKS, Cluster
from tests.unit.executor.harness import GraphText


def compiled(
    g: GraphText, fetches: list[str], feeds: list[str] | None = None, targets: list[str] | None = None, **off: Any
) -> NodeGraph:
    options = CompileOptions()
    for name, value in off.items():
        setattr(options.graph_options.rewrite_options, name, value)
    parts = Cluster(g.proto, TWO_TASKS, options=options).parts(feeds or [], fetches, targets or [])
    assert len(parts) == 1
    return next(iter(parts.values()))


def ops(graph: NodeGraph) -> list[str]:
    return sorted(n.op for n in graph)


def test_constants_are_folded_and_keep_the_fetched_name() -> None:
    g = GraphText()
    g.const("a", [1.0, 2.0], "float32")
    g.add("b", "AddV2", "a", "a", T="float32")
    g.add("c", "Mul", "b", "a", T="float32")
    graph = compiled(g, ["c:0"])
    assert ops(graph) == ["Const", "_Send"]
    assert graph.nodes["c"].attr("value").tolist() == [2.0, 8.0]
    assert "Mul" in ops(compiled(g, ["c:0"], constant_folding=config_pb2.RewriterConfig.OFF))


def test_a_fed_constant_is_not_folded_away() -> None:
    g = GraphText()
    g.const("a", 1.0, "float32")
    g.add("b", "Neg", "a", T="float32")
    cluster = Cluster(g.proto)
    assert cluster.run(["b:0"]) == [-1.0]
    assert cluster.run(["b:0"], {"a:0": np.float32(5)}) == [-5.0]


def test_folding_stops_at_the_limit() -> None:
    g = GraphText()
    g.const("a", np.ones(1000), "float32")
    g.add("b", "Neg", "a", T="float32")
    options = CompileOptions()
    options.graph_options.optimizer_options.max_folded_constant_in_bytes = 3999
    assert "Neg" in ops(next(iter(Cluster(g.proto, options=options).parts([], ["b:0"], []).values())))
    options.graph_options.optimizer_options.max_folded_constant_in_bytes = 4000
    assert "Neg" not in ops(next(iter(Cluster(g.proto, options=options).parts([], ["b:0"], []).values())))


def test_what_makes_much_of_little_is_folded_up_to_the_limit() -> None:
    g = GraphText()
    g.const("a", [1.0, 2.0], "float32")
    g.const("times", [500], "int32")
    g.add("b", "Tile", "a", "times", T="float32", Tmultiples="int32")
    options = CompileOptions()
    for limit, expected in ((3999, 1), (4000, 0)):
        options.graph_options.optimizer_options.max_folded_constant_in_bytes = limit
        assert (
            ops(next(iter(Cluster(g.proto, options=options).parts([], ["b:0"], []).values()))).count("Tile") == expected
        )


def test_random_values_and_variables_are_not_folded() -> None:
    g = GraphText()
    g.const("shape", [2], "int32")
    g.add("r", "RandomUniform", "shape", T="int32", dtype="float32", seed=1, seed2=2)
    g.add("n", "Neg", "r", T="float32")
    cluster = Cluster(g.proto)
    first, second = cluster.run(["n:0"])[0], cluster.run(["n:0"])[0]
    assert first.tolist() != second.tolist()


def test_an_error_in_folded_nodes_is_the_steps() -> None:
    g = GraphText()
    g.const("a", [1.0, 2.0], "float32")
    g.const("shape", [3], "int32")
    g.add("r", "Reshape", "a", "shape", T="float32", Tshape="int32")
    g.const("other", 1.0, "float32")
    cluster = Cluster(g.proto)
    assert cluster.run(["other:0"]) == [1.0]
    with pytest.raises(Exception, match="reshape"):
        cluster.run(["r:0"])


def test_an_error_of_a_parser_in_folded_nodes_is_the_steps() -> None:
    g = GraphText()
    g.const("tag", b"t", object)
    g.const("x", 1.0, "float32")
    g.const("metadata", b"-3.5", object)
    g.add("s", "TensorSummaryV2", "tag", "x", "metadata", T="float32")
    assert ops(compiled(g, ["s:0"])).count("TensorSummaryV2") == 1
    with pytest.raises(InvalidArgumentError, match="SummaryMetadata"):
        Cluster(g.proto).run(["s:0"])


def test_outputs_of_several_results_are_folded() -> None:
    g = GraphText()
    g.const("axis", 0, "int32")
    g.const("x", [1.0, 2.0], "float32")
    g.add("s", "Split", "axis", "x", T="float32", num_split=2)
    g.add("y", "Sub", "s:1", "s:0", T="float32")
    assert ops(compiled(g, ["y:0"])) == ["Const", "_Send"]
    assert Cluster(g.proto).run(["y:0", "s:1"])[1].tolist() == [2.0]


def test_equal_nodes_become_one_also_with_swapped_operands() -> None:
    g = GraphText()
    g.add("p", "Placeholder", dtype="float32")
    g.add("q", "Placeholder", dtype="float32")
    g.add("a", "Mul", "p", "q", T="float32")
    g.add("b", "Mul", "q", "p", T="float32")
    g.add("c", "Sub", "a", "b", T="float32")
    g.add("d", "Sub", "p", "q", T="float32")
    g.add("e", "Sub", "q", "p", T="float32")
    feeds = ["p:0", "q:0"]
    assert ops(compiled(g, ["c:0"], feeds)).count("Mul") == 1
    assert ops(compiled(g, ["d:0", "e:0"], feeds)).count("Sub") == 2
    off = config_pb2.RewriterConfig.OFF
    assert ops(compiled(g, ["c:0"], feeds, common_subgraph_elimination=off)).count("Mul") == 2


def test_two_placeholders_are_not_one() -> None:
    g = GraphText()
    g.const("d", 1.0, "float32")
    g.add("p", "PlaceholderWithDefault", "d", dtype="float32", shape=[])
    g.add("q", "PlaceholderWithDefault", "d", dtype="float32", shape=[])
    g.add("c", "Sub", "p", "q", T="float32")
    assert Cluster(g.proto).run(["c:0"], {"p:0": np.float32(3)}) == [2.0]


@pytest.mark.parametrize(
    ("op", "const", "dtype", "goes"),
    [
        ("AddV2", 0, "int32", True),
        ("AddV2", -0.0, "float32", True),
        ("AddV2", 0.0, "float32", False),
        ("Sub", 0.0, "float32", True),
        ("Sub", -0.0, "float32", False),
        ("Mul", 1, "float32", True),
        ("Mul", 1, "complex64", False),
        ("Mul", 0, "float32", False),
        ("RealDiv", 1, "float32", True),
        ("Pow", 1, "float32", True),
    ],
)
def test_neutral_elements(op: str, const: float, dtype: str, goes: bool) -> None:
    g = GraphText()
    g.add("p", "Placeholder", dtype=dtype)
    g.const("k", const, dtype)
    g.add("y", op, "p", "k", T=dtype)
    g.add("z", "Neg", "y", T=dtype)
    assert (op not in ops(compiled(g, ["z:0"], ["p:0"]))) == goes
    if dtype == "float32":
        for value in (math.nan, math.inf, -0.0, 0.0, 3.5):
            options = CompileOptions()
            options.graph_options.rewrite_options.disable_meta_optimizer = True
            feeds = {"p:0": np.float32(value)}
            want = Cluster(g.proto, options=options).run(["z:0"], feeds)[0]
            got = Cluster(g.proto).run(["z:0"], feeds)[0]
            assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def test_a_neutral_element_with_dimensions_may_broadcast_and_stays() -> None:
    g = GraphText()
    g.add("p", "Placeholder", dtype="float32")
    g.const("k", [[1.0]], "float32")
    g.add("y", "Mul", "p", "k", T="float32")
    assert Cluster(g.proto).run(["y:0"], {"p:0": np.float32(2)})[0].shape == (1, 1)


def test_chains_of_copies_negations_transposes_and_reshapes() -> None:
    g = GraphText()
    g.add("p", "Placeholder", dtype="float32")
    g.add("i", "Identity", "p", T="float32")
    g.add("n", "Neg", "i", T="float32")
    g.add("m", "Neg", "n", T="float32")
    g.const("perm", [1, 0], "int32")
    g.add("t", "Transpose", "m", "perm", T="float32", Tperm="int32")
    g.add("u", "Transpose", "t", "perm", T="float32", Tperm="int32")
    g.const("s1", [6], "int32")
    g.const("s2", [3, 2], "int32")
    g.add("r", "Reshape", "u", "s1", T="float32", Tshape="int32")
    g.add("q", "Reshape", "r", "s2", T="float32", Tshape="int32")
    g.add("c", "Cast", "q", SrcT="float32", DstT="float32", Truncate=False)
    g.add("y", "Exp", "c", T="float32")
    assert ops(compiled(g, ["y:0"], ["p:0"])) == ["Const", "Exp", "Reshape", "_Recv", "_Send"]
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(Cluster(g.proto).run(["y:0"], {"p:0": value})[0], np.exp(value.reshape(3, 2)))
    everything = compiled(g, ["y:0"], ["p:0"], arithmetic_optimization=config_pb2.RewriterConfig.OFF)
    assert "Neg" in ops(everything)


def conditional(pred: bool) -> GraphText:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.const("p", pred)
    g.add("s", "Switch", "x", "p", T="float32")
    g.add("no", "Neg", "s:0", T="float32")
    g.add("yes", "Exp", "s:1", T="float32")
    g.add("m", "Merge", "no", "yes", T="float32", N=2)
    return g


@pytest.mark.parametrize(("pred", "op", "want"), [(True, "Exp", 1.0), (False, "Neg", 0.0)])
def test_the_branch_not_taken_goes(pred: bool, op: str, want: float) -> None:
    g = conditional(pred)
    graph = compiled(g, ["m:0"], ["x:0"])
    assert ops(graph) == sorted([op, "_Recv", "_Send"])
    value, index = Cluster(g.proto).run(["m:0", "m:1"], {"x:0": np.float32(0)})
    assert (value, index) == (want, int(pred))
    kept = compiled(g, ["m:0"], ["x:0"], loop_optimization=config_pb2.RewriterConfig.OFF)
    assert "Switch" in ops(kept)


def test_a_target_in_the_dead_branch_stays() -> None:
    graph = compiled(conditional(True), [], ["x:0"], ["no"])
    assert "no" in graph.nodes


def test_what_is_only_waited_for_is_not_computed() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("wanted", "Neg", "x", T="float32")
    g.add("inner", "Exp", "wanted", T="float32")
    g.add("idle", "Square", "inner", T="float32")
    g.add("check", "CheckNumerics", "inner", T="float32", message="inner")
    g.add("all", "NoOp", "^idle", "^wanted")
    g.add("y", "Identity", "wanted", "^all", T="float32")
    graph = compiled(g, ["y:0"], ["x:0"])
    assert "Square" not in ops(graph)
    assert "Exp" not in ops(graph)
    (value,) = Cluster(g.proto).run(["y:0"], {"x:0": np.float32(2)})
    assert value == -2
    assert "Square" in ops(compiled(g, ["y:0"], ["x:0"], dependency_optimization=config_pb2.RewriterConfig.OFF))
    # What is asked for by name, and what is there to fail, stays.
    assert {"Exp", "Square"} <= set(ops(compiled(g, ["y:0"], ["x:0"], ["idle"])))
    g.add("z", "Identity", "wanted", "^check", T="float32")
    assert {"Exp", "CheckNumerics"} <= set(ops(compiled(g, ["z:0"], ["x:0"])))


def test_options_choose_rewrites() -> None:
    options = config_pb2.GraphOptions()
    assert Rewrites.from_options(options) == Rewrites()
    options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    assert Rewrites.from_options(options) == Rewrites(False, False, False, False, False, fuse=False)
    options.optimizer_options.do_constant_folding = True
    assert Rewrites.from_options(options) == Rewrites(True, False, False, False, False, fuse=False)
    options.rewrite_options.disable_meta_optimizer = True
    assert Rewrites.from_options(options) == Rewrites(False, False, False, False, False, fuse=False)
    options.rewrite_options.remapping = config_pb2.RewriterConfig.OFF
    assert Rewrites.from_options(options) == Rewrites(False, False, False, False, False, False, fuse=False)


def test_a_read_of_a_variable_is_not_moved_past_its_update() -> None:
    g = GraphText()
    g.add("v", "VariableV2", dtype="float32", shape=[])
    g.const("one", 1.0, "float32")
    g.add("init", "Assign", "v", "one", T="float32")
    g.add("read", "Identity", "v", T="float32")
    g.proto.node.add(name="up", op="AssignAdd", input=["v", "one", "^read"]).attr["T"].type = 1
    g.proto.node.add(name="late", op="Identity", input=["v", "^up"]).attr["T"].type = 1
    cluster = Cluster(g.proto)
    cluster.run([], targets=["init"])
    before, after = cluster.run(["read:0", "late:0"])
    assert (float(before), float(after)) == (1.0, 2.0)
