"""Every golden case in an in-process session: on one device, and scattered over three."""

from __future__ import annotations

from dtfctl.protocol import config_pb2
from tests.support.golden import Case, cases
from tests.support.golden_run import parametrize_cases, run_case, scatter


@parametrize_cases(cases())
def test_one_device(case: Case) -> None:
    run_case(case, "", config_pb2.ConfigProto())


@parametrize_cases(cases())
def test_three_devices(case: Case) -> None:
    config = config_pb2.ConfigProto(device_count={"CPU": 3}, operation_timeout_in_ms=60_000)
    run_case(case, "", config, scatter(case.name, ["/cpu:0", "/cpu:1", "/cpu:2"]))
