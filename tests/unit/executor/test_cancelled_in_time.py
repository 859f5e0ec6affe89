"""Steps end when they are told, however the work in them is nested."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, DeadlineExceededError
from dtfctl.runtime.kernels.control.py_func import register_py_func, unregister_py_func
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner
from tests.unit.executor.test_functions import function

TYPES = {"Tin": ["int32"], "Tout": ["int32"]}
DEPTH = 60


def tree(kind: str) -> GraphText:
    """f_k(n) = f_(k-1)(f_(k-1)(n)): a graph of some hundred nodes, of 2**60 calls."""
    g = GraphText()
    body = GraphText()
    body.const("one", np.int32(1))
    body.add("more", "AddV2", "n", "one:output:0", T="int32")
    inner = function(g, "F0", {"n": "int32"}, {"r": ("int32", "more:z:0")}, body)
    for level in range(1, DEPTH):
        body = GraphText()
        body.const("yes", np.bool_(True))
        source = "n"
        for call in ("first", "second"):
            if kind == "PartitionedCall":
                body.add(call, kind, source, f=inner, **TYPES)
            elif kind == "If":
                body.add(
                    call, kind, "yes:output:0", source, Tcond="bool", then_branch=inner, else_branch=inner, **TYPES
                )
            else:
                body.add(call, kind, "yes:output:0", source, branches=[inner], **TYPES)
                body.proto.node[-1].input[0] = "zero:output:0"
            source = f"{call}:output:0"
        if kind == "Case":
            body.const("zero", np.int32(0))
        inner = function(g, f"F{level}", {"n": "int32"}, {"r": ("int32", source)}, body)
    g.const("n", np.int32(0))
    g.add("f", "PartitionedCall", "n", f=inner, **TYPES)
    return g


@pytest.mark.parametrize("kind", ["PartitionedCall", "If", "Case"])
def test_a_tree_of_calls_ends_at_its_deadline(kind: str) -> None:
    runner, token = Runner(tree(kind).proto), CancellationToken()
    executor = runner.executor([], ["f:0"])
    clock = threading.Timer(0.3, lambda: token.cancel(DeadlineExceededError("The step took too long")))
    clock.start()
    with pytest.raises(CancelledError, match="took too long"):
        executor.run(runner.step(LocalRendezvous(), token))
    clock.join()


def test_a_long_line_of_nodes_ends_soon_after_it_is_told() -> None:
    calls, token = list[int](), CancellationToken()

    def work(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        token.cancel()
        return x

    registered = register_py_func(work)
    g = GraphText()
    value = g.const("x", np.float32(1))
    for i in range(60):
        value = g.add(f"f{i}", "PyFunc", value, token=registered, Tin=["float32"], Tout=["float32"])
    runner = Runner(g.proto)
    try:
        with pytest.raises(CancelledError):
            runner.executor([], [f"{value}:0"]).run(runner.step(LocalRendezvous(), token))
    finally:
        unregister_py_func(registered)
    assert 1 <= len(calls) <= 16


def test_a_body_that_is_called_again_and_again_looks_for_the_end() -> None:
    """A loop inside a function, in a loop: no iteration of any is long, all together are."""
    g = GraphText()
    body = GraphText()
    body.add("same", "Identity", "n", T="int32")
    same = function(g, "Same", {"n": "int32"}, {"r": ("int32", "same:output:0")}, body)
    body = GraphText()
    body.const("zero", np.int32(0))
    body.add("go", "GreaterEqual", "n", "zero:output:0", T="int32")
    go = function(g, "Go", {"n": "int32"}, {"r": ("bool", "go:z:0")}, body)
    g.const("n", np.int32(0))
    g.add("w", "While", "n", T=["int32"], cond=go, body=same)
    runner, token = Runner(g.proto), CancellationToken()
    clock = threading.Timer(0.3, token.cancel)
    clock.start()
    with pytest.raises(CancelledError):
        runner.executor([], ["w:0"]).run(runner.step(LocalRendezvous(), token))
    clock.join()
