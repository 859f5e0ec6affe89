"""The unmodified client of TensorFlow 2.21 against a cluster of ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import Stock

# Clients import TensorFlow first, which alone takes a minute where processors are busy.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def test_calls_and_errors_of_a_session(stock: Stock) -> None:
    assert stock.run("stock_session.py").endswith("done\n")


@pytest.mark.slow
def test_golden_cases(stock: Stock) -> None:
    stock.run("stock_golden.py")


@pytest.mark.parametrize("program", ["iterators", "queue_runners", "summaries"])
def test_programs(stock: Stock, program: str, tmp_path: Path) -> None:
    assert stock.run("stock_programs.py", program, str(tmp_path)).splitlines()[-1] == "done"


def test_two_clients_train_in_step(stock: Stock, tmp_path: Path) -> None:
    """SyncReplicasOptimizer: every update is the mean of both workers' gradients."""
    folder = str(tmp_path / "checkpoints")
    clients = [stock.start("stock_sync.py", "0", folder)]
    try:
        # One that is there before the chief has initialised the model looks again only after half a minute.
        assert clients[0].stdout is not None
        assert clients[0].stdout.readline() == "ready\n"
        clients.append(stock.start("stock_sync.py", "1", folder, worker=1))
        said = [stock.finish(client).splitlines()[-1] for client in clients]
    finally:
        for client in clients:
            client.kill()
            client.wait()
    # Worker 0 pulls towards 1 and worker 1 towards 3; only together do they reach 2.
    assert abs(float(said[0].split()[-1]) - 2.0) < 0.05
    assert said[1].startswith("steps ")


def test_tasks_compute_together(stock: Stock) -> None:
    assert stock.run("stock_collectives.py", "together").endswith("done\n")


def test_two_clients_compute_together(stock: Stock) -> None:
    """Each pulls its own copy elsewhere; by the mean of both gradients both copies go to the middle."""
    clients = [stock.start("stock_collectives.py", "alone", str(task), worker=task) for task in range(2)]
    said = [stock.finish(client).splitlines() for client in clients]
    assert said[0] == said[1]
    assert all(abs(w - 2.0) < 1e-4 for w in json.loads(said[0][0]))


def test_a_client_that_is_killed_between_two_steps_keeps_no_other_waiting(stock: Stock) -> None:
    """It has only gRPC, through `dtfctl connect`; its task lives on, and the other's does not hang."""

    def start(task: int) -> subprocess.Popen[str]:
        client = stock.start("stock_collectives.py", "stepwise", str(task), worker=task)
        clients.append(client)
        return client

    def say(client: subprocess.Popen[str]) -> None:
        assert client.stdin is not None
        client.stdin.write("step\n")
        client.stdin.flush()

    def hear(client: subprocess.Popen[str]) -> str:
        assert client.stdout is not None
        return client.stdout.readline().strip()

    clients: list[subprocess.Popen[str]] = []
    try:
        first, second = start(0), start(1)
        assert [hear(first), hear(second)] == ["ready", "ready"]
        say(first), say(second)
        assert [hear(first), hear(second)] == ["[3.0]", "[3.0]"]
        say(first)
        second.kill()
        assert hear(first) == "AbortedError"
        third = start(1)
        assert hear(third) == "ready"
        say(first), say(third)
        assert [hear(first), hear(third)] == ["[3.0]", "[3.0]"]
    finally:
        for client in clients:
            client.kill()
            client.communicate()
