"""Workers that come and go while they train together."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.strategies.elastic import Roll
from tests.support.ports import free_ports
from tests.support.waiting import wait_until
from tests.unit.strategies.elastic_program import alone, training
from tests.unit.strategies.test_between_graphs import cluster

pytestmark = pytest.mark.slow

elastic = tf.distribute.experimental.run_elastic


class Gone(Exception):
    """A worker ends in the middle of training."""


def asked(resolver: Any) -> Callable[[], bool]:
    def look() -> bool:
        with Roll(resolver, "").session() as (_, session):
            return bool(session.run(Roll(resolver, "").queue("asked").size()))

    return look


def same(have: Any, want: Any) -> None:
    for a, b in zip(have, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_worker_that_comes_and_one_that_goes_change_the_group_and_not_the_weights() -> None:
    told: list[list[str]] = [[], [], []]
    comes = threading.Event()

    def before(index: int) -> Callable[[int, Any], None]:
        def hook(step: int, strategy: Any) -> None:
            size = strategy.num_replicas_in_sync
            if index == 0 and size == 2 and step == 10 and not comes.is_set():
                comes.set()
                wait_until(asked(resolvers[0]), "worker 2 asks")
            if index == 1 and size == 3 and step >= 20:
                raise Gone

        return hook

    def work(index: int) -> Any:
        if index == 2:
            assert comes.wait(60)
        train = training(30, told[index].append, before(index))
        try:
            return elastic(train, resolvers[index], fewest=2, begin_s=0)
        except Gone:
            return None

    with cluster(3) as resolvers, ThreadPoolExecutor(3) as pool:
        first, gone, came = pool.map(work, range(3))
    assert gone is None
    same(first, alone(30))
    same(came, first)
    assert [line.split(" at ")[0] for line in told[0]] == ["group 2", "group 3", "group 2"]
    assert [line.split(" at ")[0] for line in told[2]] == ["group 3", "group 2"]
    # From memory: nobody begins anew.
    assert told[2][0] == told[0][1] and int(told[2][0].split()[-1]) >= 10 and int(told[2][1].split()[-1]) >= 20


def test_a_worker_that_comes_when_training_is_over_is_told_so() -> None:
    with cluster(2) as resolvers:
        found = elastic(training(3, lambda line: None, lambda *_: None), resolvers[0], begin_s=0)
        same(found, alone(3))
        assert elastic(training(3, lambda line: None, lambda *_: None), resolvers[1]) is None


def test_who_is_no_worker_and_what_fails_by_itself_are_said_at_once() -> None:
    with pytest.raises(ValueError, match="run_elastic runs in a worker of a cluster"):
        elastic(lambda strategy: None)

    def broken(strategy: Any) -> Any:
        raise tf.errors.InvalidArgumentError(None, None, "the program's own")

    with cluster(1) as (resolver,), pytest.raises(tf.errors.InvalidArgumentError, match="the program's own"):
        elastic(broken, resolver, begin_s=0)


def test_the_others_go_on_from_memory_when_a_worker_is_killed(tmp_path: Path) -> None:
    # Three real processes: nothing less is killed by SIGKILL.
    addresses = json.dumps([f"127.0.0.1:{port}" for port in free_ports(3)])
    command = [sys.executable, "-m", "tests.unit.strategies.elastic_program", addresses]
    held = tmp_path / "hold-3"
    held.touch()
    workers = [
        subprocess.Popen([*command, str(i), "12", str(tmp_path)], stdout=subprocess.PIPE, text=True) for i in range(3)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "group 3 at 0\n"
        workers[1].send_signal(signal.SIGKILL)
        held.unlink()
        for worker in (workers[0], workers[2]):
            assert worker.stdout is not None
            group, done = worker.stdout.readline(), worker.stdout.readline()
            assert group.startswith("group 2 at ") and done.startswith("done ")
            same(json.loads(done.removeprefix("done ")), alone(12))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
