"""What `doctor` says about hosts that are not as they should be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfctl._version import VERSION
from dtfctl.launcher.agent.start.gpus import parse
from dtfctl.launcher.identity.certificates import ensure_authority, ensure_certificate
from dtfctl.launcher.messages.looks import Inspection, Rdma
from dtfctl.launcher.model import HostStatus
from dtfctl.launcher.operator import doctor
from dtfctl.launcher.operator.doctor import Answer, Finding, judge
from dtfctl.launcher.paths import ClusterPaths
from tests.doubles.launcher import status

NOW = 1_800_000_000.0
YEAR_S = 365 * 86400.0


def said(**changes: Any) -> Inspection:
    usual = Inspection(
        version=VERSION,
        python="3.12.1",
        time=NOW + 0.1,
        open_files=65536,
        processes=-1,
        disk_free_bytes=2**40,
        inodes_free=10**9,
        certificate_until=NOW + YEAR_S,
        system="Linux",
    )
    return replace(usual, **changes)


def findings(answer: Answer, lifetime_s: float = YEAR_S) -> list[Finding]:
    now = status()
    now = replace(now, controller=replace(now.controller, version=VERSION), hosts=(HostStatus("n1", "up"),))
    return judge(now, {"n1": answer}, needs_ssh=False, lifetime_s=lifetime_s)


def bad(answer: Answer) -> list[tuple[str, str]]:
    return [(item.check, item.level) for item in findings(answer) if item.level != "ok"]


def test_nothing_is_wrong() -> None:
    assert bad(Answer(said(), NOW, 0.2)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"time": NOW + 5}, ("clock", "warning")),
        ({"time": NOW - 3600}, ("clock", "warning")),
        ({"version": "0.0.1"}, ("version", "warning")),
        ({"python": "3.10.2"}, ("python", "error")),
        ({"open_files": 1024}, ("limits", "warning")),
        ({"processes": 100}, ("limits", "warning")),
        ({"disk_free_bytes": 1000}, ("disk", "warning")),
        ({"inodes_free": 5}, ("disk", "warning")),
        ({"certificate_until": NOW - 1}, ("certificates", "error")),
        ({"certificate_until": NOW + 86400}, ("certificates", "warning")),
        ({"loose_files": ("/k",)}, ("keys", "error")),
        ({"rdma": Rdma(("mlx5_0 InfiniBand",))}, ("rdma", "warning")),
        ({"rdma": Rdma(("mlx5_0 InfiniBand",), "1.21.0", ("tcp/eth0",), "built without")}, ("rdma", "warning")),
    ],
)
def test_each_fault_is_found_and_says_what_to_do(changes: dict[str, object], expected: tuple[str, str]) -> None:
    assert bad(Answer(said(**changes), NOW, 0.2)) == [expected]
    assert all(item.advice for item in findings(Answer(said(**changes), NOW, 0.2)) if item.level != "ok")


def test_rdma_that_is_used_is_named() -> None:
    rdma = Rdma(("mlx5_0 InfiniBand",), "1.21.0", ("rc_mlx5/mlx5_0:1",))
    (found,) = [item for item in findings(Answer(said(rdma=rdma), NOW, 0.2)) if item.check == "rdma"]
    assert found.level == "ok"
    assert found.message == "mlx5_0 InfiniBand: tensors go through UCX 1.21.0 by rc_mlx5/mlx5_0:1"


def test_a_short_lifetime_is_no_fault_where_renewing_works() -> None:
    month_s = 30 * 86400.0
    levels = {
        left: [item.level for item in findings(Answer(said(certificate_until=NOW + left * month_s), NOW, 0.2), month_s)]
        for left in (1.0, 0.4, 0.2)
    }
    assert {left: "warning" in found for left, found in levels.items()} == {1.0: False, 0.4: False, 0.2: True}


def test_a_slow_answer_is_no_clock_skew() -> None:
    assert bad(Answer(said(time=NOW + 7), NOW, 8.0)) == []


def test_a_host_that_does_not_answer() -> None:
    assert bad(Answer(None, NOW, 5.0, "connection refused")) == [("agent", "error")]


def test_files_of_a_cluster(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path / "c")
    ensure_authority(paths.certificates, "c")
    paths.folder.chmod(0o700)
    key = ensure_certificate(paths.certificates, "c", "cli").key
    import time

    now = time.time()
    assert [item.level for item in doctor.look_at_files(paths, now, YEAR_S)] == ["ok", "ok"]
    key.chmod(0o644)
    assert [item.level for item in doctor.look_at_files(paths, now + 10 * YEAR_S, YEAR_S)] == ["error", "error"]


def test_what_nvidia_smi_says() -> None:
    found = parse("0, NVIDIA H200, 37, 1024, 143771\n1, NVIDIA H200, [N/A], 0, 143771\nnonsense\n")
    assert [(gpu.index, gpu.busy_percent, gpu.memory_used_bytes) for gpu in found] == [(0, 37.0, 2**30), (1, 0.0, 0)]
