"""Calls of kernels, as the golden and oracle cases make them: what tests of all kernels run their kernels on."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor import kernel_cache
from dtfctl.runtime.executor.kernel_cache import BoundKernel
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.kernels.registry import KernelBuild, KernelSpec, find_kernel
from dtfctl.runtime.kernels.variable import Variable
from tests.support.golden import cases
from tests.unit.executor.harness import GraphText, Runner
from tests.unit.kernels import graph_cases, oracle_cases

# Cases of an op, and calls remembered of it for each combination of types.
_MOST_CASES = 12
_MOST_CALLS = 6


@dataclass(frozen=True)
class Call:
    """One call of a kernel.

    Attributes:
        build: what the kernel was made from.
        lead: the step's context for a kernel that wants it.
        inputs: copies of arrays; variables and handles are those of the call, whose values are in `values`.
        values: of variables, by their position in the inputs.
    """

    spec: KernelSpec
    build: KernelBuild
    lead: tuple[Any, ...]
    inputs: tuple[Any, ...]
    values: dict[int, np.ndarray[Any, Any]]

    def __str__(self) -> str:
        shown = [f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else str(x) for x in self.inputs]
        return f"{self.build.node.op} {self.build.node.attrs} on {shown}"

    @property
    def is_whole(self) -> bool:
        """Whether its variables are still there."""
        return all(variable_of(self.build, self.inputs[position]) is not None for position in self.values)

    def fresh_inputs(self) -> list[Any]:
        """Copies of the arrays; variables have the values of the call again, which nobody else holds."""
        for position in self.values:
            self.variable(position).assign(self.values[position].copy())
        return [x.copy() if is_numbers(x) else x for x in self.inputs]

    def variable(self, position: int) -> Variable:
        found = variable_of(self.build, self.inputs[position])
        assert found is not None
        return found

    def with_inputs(self, inputs: Sequence[Any]) -> Call:
        return replace(self, inputs=tuple(inputs))


def is_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.dtype.hasobject


def variable_of(build: KernelBuild, value: Any) -> Variable | None:
    """The variable that a kernel gets, by reference or by handle."""
    if isinstance(value, Variable):
        return value
    handle = value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else None
    if not isinstance(handle, ResourceHandle):
        return None
    try:
        return build.resources.lookup(handle.container, handle.name, Variable)
    except OpError:
        return None


@contextmanager
def _recording(ops: Collection[str], calls: dict[str, list[Call]]) -> Iterator[None]:
    make = kernel_cache._make
    counts: dict[Any, int] = defaultdict(int)

    def recording(build: KernelBuild) -> BoundKernel:
        bound = make(build)
        if build.node.op not in ops:
            return bound
        call, registered = bound.call, find_kernel(build.node, "CPU")
        assert registered is not None

        def run(*args: Any) -> Any:
            lead = args[: int(bound.spec.step)]
            inputs = tuple(x.copy() if is_numbers(x) else x for x in args[len(lead) :])
            values = {}
            for i, x in enumerate(inputs):
                variable = variable_of(build, x)
                if variable is not None and variable.is_initialized:
                    values[i] = np.array(variable.read())
            result = call(*args)
            key = build.node.op, build.node.input_types, tuple(x.shape for x in inputs if is_numbers(x))
            counts[key[:2]] += key not in counts
            counts[key] += 1
            if counts[key] == 1 and counts[key[:2]] <= _MOST_CALLS:
                calls[build.node.op].append(Call(registered, build, lead if registered.step else (), inputs, values))
            return result

        return BoundKernel(bound.spec, run)

    kernel_cache._make = recording  # type: ignore[assignment]
    try:
        yield
    finally:
        kernel_cache._make = make  # type: ignore[assignment]


def recorded_calls(ops: Collection[str]) -> dict[str, list[Call]]:
    """Calls that succeeded, by op, of different types and shapes."""
    calls: dict[str, list[Call]] = defaultdict(list)
    with _recording(ops, calls):
        _run_more()
        for file in sorted(oracle_cases.DATA.glob("*.json.gz")):
            family = file.name.removesuffix(".json.gz")
            if family.endswith("_graphs"):
                _run_graphs(family.removesuffix("_graphs"), ops, calls)
                continue
            for op, found in oracle_cases.cases_by_op(family).items():
                for case in found[: 4 * _MOST_CASES] if op in ops else ():
                    oracle_cases.check(case)
        for golden in cases():
            if not ops_missing(golden.ops, ops, calls):
                continue
            runner = Runner(golden.graph_def())
            for step in golden.steps():
                runner.run(step.fetches, step.feeds, step.targets)
    return {op: [c for c in found if c.is_whole] for op, found in calls.items()}


def _run_more() -> None:
    """Run what no case has: sums of all but the last dimension, and updates of variables of floats."""
    g = GraphText()
    g.const("x", np.arange(105.0).reshape(5, 3, 7), np.float32)
    g.const("axes", [0, 1], np.int32)
    g.add("sum", "Sum", "x", "axes", T="float32", Tidx="int32")
    g.const("rows", np.arange(24.0).reshape(6, 4), np.float32)
    g.const("indices", [4, 1, 4], np.int32)
    g.const("updates", np.arange(12.0).reshape(3, 4), np.float32)
    g.add("ref", "VariableV2", dtype="float32", shape=[6, 4])
    g.add("handle", "VarHandleOp", dtype="float32", shape=[6, 4])
    g.add("init_ref", "Assign", "ref", "rows", T="float32")
    g.add("init_handle", "AssignVariableOp", "handle", "rows", dtype="float32")
    for kind in ("Add", "Sub"):
        g.add(f"ref_{kind}", f"Scatter{kind}", "ref", "indices", "updates", T="float32", Tindices="int32")
        scatter = f"ResourceScatter{kind}"
        g.add(f"handle_{kind}", scatter, "handle", "indices", "updates", dtype="float32", Tindices="int32")
        g.add(f"whole_{kind}", f"Assign{kind}VariableOp", "handle", "rows", dtype="float32")
    runner = Runner(g.proto)
    runner.run(["sum:0"], targets=["init_ref", "init_handle"])
    runner.run([], targets=[f"{what}_{kind}" for what in ("ref", "handle", "whole") for kind in ("Add", "Sub")])


def _run_graphs(family: str, ops: Collection[str], calls: dict[str, list[Call]]) -> None:
    for case in graph_cases.load(family).values():
        graph = graph_pb2.GraphDef.FromString(base64.b64decode(case["graph"]))
        if ops_missing({n.op for n in graph.node}, ops, calls):
            graph_cases.check(case)


def ops_missing(have: Collection[str], ops: Collection[str], calls: dict[str, list[Call]]) -> bool:
    """Whether a case has an op of which too few calls are known."""
    return any(op in ops and len(calls[op]) < _MOST_CASES for op in have)
