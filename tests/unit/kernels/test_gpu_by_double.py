"""GPU kernels without a GPU: sessions with a device whose array module is the strict stand-in for cupy.

Every golden case runs with each node that has a GPU kernel on GPU:0. A kernel that claims a GPU but mixes host arrays
in, or uses what cupy lacks, fails; CUDA sources run through a C++ compiler.
"""

from __future__ import annotations

import pytest

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client import targets
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import device_name
from dtfctl.runtime.framework.resource_manager import ResourceManager
from tests.doubles.fake_cupy import compiler, fake_cupy
from tests.support.golden import Case, cases
from tests.support.golden_run import parametrize_cases, run_case

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs g++ to run CUDA sources without a GPU")
CUPY = fake_cupy()


@pytest.fixture(autouse=True)
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(job: str, task: int, config: config_pb2.ConfigProto) -> list[Device]:
        name = device_name(job, task, "GPU", 0)
        return [Device(name, resources=ResourceManager(job), array_module=CUPY)]

    monkeypatch.setattr(targets, "find_gpus", find)


@parametrize_cases(cases())
def test_golden_on_a_gpu(case: Case) -> None:
    run_case(case, "", config_pb2.ConfigProto(allow_soft_placement=True, operation_timeout_in_ms=60_000))
