"""The launcher owns the threads and the kernels of BLAS in its tasks, and status shows what they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dtfctl.cli.app import run
from dtfctl.launcher.api import Cluster
from dtfctl.runtime.kernels.blas_in_use import blas_in_use
from tests.cluster.conftest import spec_of, task, wait_until


@pytest.mark.skipif(not blas_in_use(), reason="numpy's BLAS here is not OpenBLAS")
def test_tasks_share_the_cores_and_use_what_the_processor_has(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")  # the oldest kernels there are
    cluster = Cluster.up(spec_of(ps=1, worker=1)).cluster
    assert cluster is not None
    names = ("ps/0", "worker/0")
    wait_until(lambda: all(task(cluster, name).blas for name in names), "status shows the BLAS of every task")
    shown = {task(cluster, name).blas for name in names}
    assert len(shown) == 1
    core, threads = shown.pop().split(" x")
    assert core != "Prescott"
    assert int(threads) == max(1, len(os.sched_getaffinity(0)) // 2)
    assert run(["status", "-o", "wide"]) == 0
    assert f"{core} x{threads}" in capsys.readouterr().out
