"""What the executor's threads keep while they have nothing to do."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.product import Product
from tests.support.waiting import wait_until


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the kernel tells of its threads under /proc")
def test_an_idle_thread_keeps_no_team_of_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next thread's products wait, each of them, until its own team has been woken up."""
    monkeypatch.setenv("DTF_ADAPT_THREADS", "0")
    library = find_library()
    if library is None or library.threads() < 2:
        pytest.skip("there is no oneDNN with more than one thread here")
    random = np.random.default_rng(0)
    a, b = (random.random(shape, np.float32) for shape in ((64, 784), (784, 256)))
    out = np.empty((64, 256), np.float32)
    done, before = threading.Event(), threads()
    during: list[int] = []
    worker: list[threading.Thread] = []

    def compute() -> None:
        Product(library, (64, 784, 256), False, False, False)(a, b, out)
        during.append(threads())
        worker.append(threading.current_thread())
        done.set()

    WORKERS.submit(compute)
    assert done.wait(30)
    np.testing.assert_allclose(out, a @ b, rtol=1e-3)
    assert during[0] > before + 1, "the product had no team: the test shows nothing"
    wait_until(lambda: threads() <= before + 1, "the team's end")
    assert worker[0].is_alive(), "the team has ended with its thread only"
