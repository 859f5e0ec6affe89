"""Golden cases and kernels on a real GPU: what test_gpu_by_double does with a stand-in, with cupy itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import device_name
from dtfctl.runtime.kernels.cuda.sources import VARIANTS, source_text
from dtfctl.runtime.services.gpu import find_gpus
from tests.support.golden import Case, cases
from tests.support.golden_run import parametrize_cases, run_case
from tests.support.interpreter import Interpreter
from tests.unit.executor.harness import GraphText
from tests.unit.kernels import oracle_cases
from tests.unit.kernels.test_gpu_by_double import FAMILIES, ORACLE, PARTS, check_graphs

CONFIG = config_pb2.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=120_000)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    def make() -> Device:
        return Device(device_name("localhost", 0, "GPU", 0), array_module=cupy)

    monkeypatch.setattr(Interpreter, "make_device", staticmethod(make))


def test_the_gpu_is_found() -> None:
    found = find_gpus("localhost", 0, CONFIG)
    assert found[0].device_type == "GPU" and found[0].memory_limit > 1 << 30


def test_a_node_without_a_device_goes_to_the_gpu() -> None:
    g = GraphText()
    g.const("x", np.ones((64, 64), np.float32))
    g.add("y", "MatMul", "x", "x", T="float32")
    backend = open_backend("", CONFIG)
    try:
        backend.create(graph_pb2.GraphDef.FromString(g.proto.SerializeToString()))
        (value,) = backend.run({}, ["y:0"], [])
        assert type(value) is np.ndarray and (value == 64).all()
    finally:
        backend.close()


@parametrize_cases(cases())
def test_golden(case: Case) -> None:
    run_case(case, "", CONFIG)


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("name", sorted(n for n, entries in ORACLE.items() if entries))
def test_op_alone(name: str) -> None:
    for case in ORACLE[name]:
        oracle_cases.check(case)


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_graphs(family: str, part: int) -> None:
    check_graphs(family, part)


@pytest.mark.parametrize(("name", "element", "index"), [(n, *v) for n, vs in VARIANTS.items() for v in vs])
def test_source_loads(cupy: Any, name: str, element: str, index: str) -> None:
    cupy.RawModule(code=source_text(name, element, index)).compile()
