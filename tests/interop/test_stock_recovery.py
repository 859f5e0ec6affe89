"""TensorFlow's own recovery, against a task of ours that is killed and that its agent starts again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.interop.conftest import Stock

# Clients import TensorFlow first, which alone takes a minute where processors are busy.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@pytest.mark.parametrize("victim", ["ps/0", "worker/0"])
def test_training_goes_on_from_the_newest_checkpoint(stock: Stock, victim: str, tmp_path: Path) -> None:
    before = stock.task(victim)
    assert before.pid is not None
    client = stock.start("stock_recovery.py", str(tmp_path))
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "kill\n"
        os.kill(before.pid, signal.SIGKILL)
        out = stock.finish(client, "killed\n")
    finally:
        client.kill()
        client.wait()
    # Every step the checkpoint holds was made once: nothing lost twice, nothing made up.
    assert out.splitlines()[-1] == "step 60 value 120.0"
    assert stock.task(victim).incarnation > before.incarnation
