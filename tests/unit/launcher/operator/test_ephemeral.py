"""Two commands that would bring up one cluster for themselves: the second is told, and may when the first has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

COMMAND = """
import sys
from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.operator.ephemeral import take_down_after_me
try:
    take_down_after_me("lab")
    print("mine", flush=True)
except Conflict as error:
    print(error.message, flush=True)
sys.stdin.read()
"""


def command() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["by itself", "killed"])
def test_a_cluster_of_one_command_is_no_other_commands(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path))
    first = command()
    assert said(first) == "mine"
    second = command()
    assert said(second) == f"another command (pid {first.pid}) has brought lab up, and takes it down when it ends"
    second.communicate()
    if how == "killed":
        first.kill()
    first.communicate()
    third = command()
    assert said(third) == "mine", "once nobody takes down any more what the first has brought up"
    third.communicate()
    fourth = command()
    assert said(fourth) == "mine"
    fourth.communicate()
    log = tmp_path / "ephemeral" / "lab.log"
    wait_until(lambda: not log.exists() or "Traceback" not in log.read_text(), "those that take down end well")
