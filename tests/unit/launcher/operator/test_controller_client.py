"""How long the CLI waits for a controller that lives and answers late."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.model import ControllerStatus
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.local_controller import LocalController
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.rpc.server import serve

LATE_S = 1.0


def test_one_that_lives_and_answers_late_is_given_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path))
    paths = ClusterPaths.of("late")
    controller_client.prepare(paths)
    asked = []

    def ping(request: Nothing) -> ControllerStatus:
        asked.append(time.monotonic())
        time.sleep(LATE_S)
        return ControllerStatus(1, "", 3, 0.0, "")

    server = serve({controller_calls.PING: ping}, TlsFiles.of(paths.certificates, "controller"))
    monkeypatch.setattr(LocalController, "find", lambda self: f"127.0.0.1:{server.port}")
    looked: list[str] = []
    monkeypatch.setattr(LocalController, "does_not_answer", lambda self: looked.append("looked") or "it lives")
    monkeypatch.setattr(controller_client, "ANSWERS_S", (LATE_S / 10, LATE_S / 10, 60.0))
    connection = controller_client.Connection(paths)
    try:
        assert connection.call(controller_calls.PING, Nothing()).epoch == 3
        assert len(looked) == 2, "each time that it had not answered it was looked whether it hangs"
    finally:
        connection.close()
        server.stop(0)
