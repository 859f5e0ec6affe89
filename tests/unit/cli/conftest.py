"""The command line over a launcher without processes."""

from __future__ import annotations

import sys

import pytest

from dtfctl.cli.app import run
from tests.doubles.launcher import FakeLauncher
from tests.unit.cli.harness import Dtfctl, Result


@pytest.fixture
def dtfctl(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Dtfctl:
    for name in ("DTFCTL_CLUSTER", "DTFCTL_OUTPUT"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, fake: FakeLauncher | None = None) -> Result:
        code = run(arguments, fake or FakeLauncher())
        sys.stdout.flush()
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Result(code, captured.out, captured.err)

    return call
