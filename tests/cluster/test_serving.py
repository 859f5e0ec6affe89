"""`dtfctl serve` on a cluster of real processes, which are killed while clients ask."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import ClusterFailed, UsageError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.operator.serving import ServeRequest
from tests.cluster.conftest import kill, pids, spec_of, task, wait_until
from tests.unit.serve.test_served import write

ROOT = Path(__file__).parents[2]


class Client:
    """Asks one question after the other, until it is told to stop."""

    def __init__(self, port: int, token: str) -> None:
        self.headers = {"Authorization": f"Bearer {token}"}
        self.port = port
        self.answers = 0
        self.wrong: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def ask(self, connection: http.client.HTTPConnection) -> Any:
        connection.request("POST", "/v1/models/m:predict", '{"instances": [[1, 2]]}', self.headers)
        return json.loads(connection.getresponse().read())

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._stop.is_set():
            found = self.ask(connection)
            self.answers += 1
            if found != {"predictions": [[2.0, 4.0]]}:
                self.wrong.append(found)
        connection.close()

    def go_on(self, count: int = 20) -> None:
        wanted = self.answers + count
        wait_until(lambda: self.answers >= wanted, f"{count} more answers")

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)


@pytest.mark.slow
def test_a_served_model_outlives_its_tasks_and_its_own_process(home: Path, tmp_path: Path) -> None:
    cluster = Cluster.up(spec_of(ps=0)).cluster
    assert cluster is not None
    with pytest.raises(ClusterFailed, match="none of these"):
        cluster.serve(ServeRequest(str(tmp_path)))
    for request in (ServeRequest("no-such-model"), ServeRequest(str(tmp_path), name="a/b")):
        with pytest.raises(UsageError):
            cluster.serve(request)
    write(tmp_path / "model", 2.0)
    said = subprocess.run(
        [sys.executable, "-m", "dtfctl", "serve", "--name", "m", "-o", "json", tmp_path / "model"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env=os.environ,
    )
    assert said.returncode == 0, said.stderr
    served = json.loads(said.stdout)
    token_file = Path(served["token_file"])
    token, port = token_file.read_text(), int(served["url"].split(":")[2].split("/")[0])
    assert token_file.stat().st_mode & 0o777 == 0o600 and served["tasks"] == ["worker/0", "worker/1"]
    job = cluster.job(served["job"])
    assert token not in " ".join(job.args) and token not in said.stdout + said.stderr

    client = Client(port, token)
    try:
        # The first is the one by whose master all are reached.
        for victim in ("worker/1", "worker/0"):
            client.go_on()
            before = pids(cluster)[victim]
            kill(before)
            wait_until(lambda v=victim, b=before: pids(cluster)[v] not in (b, None), f"{victim} is back")
            wait_until(lambda v=victim: task(cluster, v).state == "running", f"{victim} runs")
            client.go_on()
        assert not client.wrong
    finally:
        client.close()

    kill(cluster.job(served["job"]).clients[0].pid)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def answers() -> bool:
        try:
            return bool(client.ask(connection) == {"predictions": [[2.0, 4.0]]})
        except (OSError, http.client.HTTPException):
            connection.close()
            return False

    wait_until(answers, "it answers again, at the same port")
    assert cluster.cancel([served["job"]])[0].state == "cancelled"
    assert not answers()

    on_network = cluster.serve(ServeRequest(str(tmp_path / "model"), name="m", listen="0.0.0.0", workers=1))
    folder = Path(on_network.certificates)
    assert not on_network.token_file and (folder / "serve-client.key").stat().st_mode & 0o777 == 0o600
    context = TlsFiles.of(folder, "serve-client").identity().client_context()
    secure = http.client.HTTPSConnection("127.0.0.1", on_network.at.rest, timeout=60, context=context)
    assert client.ask(secure) == {"predictions": [[2.0, 4.0]]}
    secure.close()
