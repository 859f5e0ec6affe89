"""GPU kernels without a GPU: sessions with a device whose array module is the strict stand-in for cupy.

Every golden case runs with each node that has a GPU kernel on GPU:0. A kernel that claims a GPU but mixes host arrays
in, or uses what cupy lacks, fails; CUDA sources run through a C++ compiler.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client import targets
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import device_name
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.registry import find_kernel, kernels_of
from tests.doubles.fake_cupy import compiler, fake_cupy
from tests.support.golden import Case, cases
from tests.support.golden_run import parametrize_cases, run_case
from tests.support.interpreter import Interpreter
from tests.unit.executor.harness import GraphText
from tests.unit.kernels import graph_cases, oracle_cases

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs g++ to run CUDA sources without a GPU")
CUPY = fake_cupy()


def _gpu(job: str = "localhost", task: int = 0, number: int = 0) -> Device:
    name = device_name(job, task, "GPU", 0)
    return Device(name, resources=ResourceManager(job), array_module=CUPY, physical_index=number)


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(job: str, task: int, config: config_pb2.ConfigProto) -> list[Device]:
        # Not the one that is current by itself, so that all that touches it must say that it does.
        return [_gpu(job, task, number=1)]

    monkeypatch.setattr(targets, "find_gpus", find)
    monkeypatch.setattr(Interpreter, "make_device", staticmethod(_gpu))


@pytest.mark.slow
@parametrize_cases(cases())
def test_golden_on_a_gpu(case: Case) -> None:
    run_case(case, "", config_pb2.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=60_000))


@pytest.mark.parametrize(("pushes", "stacks"), [("GPU", "CPU"), ("CPU", "GPU")])
def test_lists_go_from_device_to_device_with_their_tensors(pushes: str, stacks: str) -> None:
    g = GraphText()
    shape, rows = g.const("shape", np.array([2], np.int32)), g.const("rows", np.arange(2, dtype=np.float32))
    most = g.const("most", np.int32(-1))
    typed: dict[str, Any] = {"element_dtype": "float32"}
    g.add("empty", "EmptyTensorList", shape, most, shape_type="int32", **typed)
    g.add("one", "TensorListPushBack", "empty", rows, **typed)
    g.add("two", "TensorListPushBack", "one", rows, **typed)
    g.add("more", "TensorListPushBack", "two", rows, **typed)
    g.add("all", "TensorListStack", "more", shape, **typed)
    for node in g.proto.node:
        if node.name in ("one", "two", "more", "all"):
            node.device = f"/device:{stacks if node.name in ('more', 'all') else pushes}:0"
    backend = targets.open_backend("", config_pb2.ConfigProto())
    try:
        backend.create(g.proto)
        assert backend.run({}, ["all:0"], [])[0].tolist() == [[0, 1]] * 3
    finally:
        backend.close()


@pytest.mark.parametrize("dtype", ["int4", "float8_e4m3fn"])
def test_types_a_gpu_has_no_arrays_of_stay_on_the_cpu(dtype: str) -> None:
    g = GraphText()
    x = g.const("x", np.arange(4).astype(dtypes.as_dtype(dtype).np), dtype)
    g.add("y", "Identity", x, T=dtype)
    g.add("z", "ConcatV2", "y", "y", g.const("axis", np.int32(0)), N=2, T=dtype)
    backend = targets.open_backend("", config_pb2.ConfigProto(allow_soft_placement=True))
    try:
        backend.create(g.proto)
        assert backend.run({}, ["z:0"], [])[0].astype(np.int32).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    finally:
        backend.close()


def _has_gpu_kernel(op: str) -> bool:
    return any("GPU" in spec.devices for spec in kernels_of(op))


ORACLE = {
    f"{family}-{op}": [c for c in entries if "want" in c]
    for family in ("array", "math", "linalg")
    for op, entries in oracle_cases.cases_by_op(family).items()
    if _has_gpu_kernel(op)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n, entries in ORACLE.items() if entries))
def test_op_alone(name: str) -> None:
    for case in ORACLE[name]:
        oracle_cases.check(case)


def _fits_a_gpu(case: dict[str, Any]) -> bool:
    """No step fails (on a GPU bad indices are not looked for), and all that works on variables has a GPU kernel."""
    graph = NodeGraph.from_graph_def(graph_pb2.GraphDef.FromString(base64.b64decode(case["graph"])))
    on_variables = [
        n for n in graph if any(t.is_ref or t is dtypes.resource for t in (*n.input_types, *n.output_types))
    ]
    return all("want" in step for step in case["steps"]) and all(find_kernel(n, "GPU") for n in on_variables)


FAMILIES = ["nn", "state", "training", "image"]
PARTS = 8


def check_graphs(family: str, part: int) -> None:
    """Check a part of a family's graphs, those of them that fit a GPU: to find these takes longer than to run some."""
    for name, case in sorted(graph_cases.load(family).items())[part::PARTS]:
        if _fits_a_gpu(case):
            try:
                graph_cases.check(case)
            except Exception as e:
                e.add_note(f"the case is {family}-{name}")
                raise


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_graphs(family: str, part: int) -> None:
    check_graphs(family, part)
