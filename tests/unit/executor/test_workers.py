"""What the executor's threads keep while they have nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dtfctl.runtime.kernels.onednn.find import find_library

# In a process of its own: threads of other tests begin and end.
PROGRAM = """
import os, threading, time
import numpy as np
from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.product import Product

threads = lambda: len(os.listdir("/proc/self/task"))
library, done, seen = find_library(), threading.Event(), []
before = threads()

def compute():
    a, b, out = np.ones((64, 784), "f4"), np.ones((784, 256), "f4"), np.empty((64, 256), "f4")
    Product(library, (64, 784, 256), False, False, False)(a, b, out)
    seen.append((threading.current_thread(), threads(), float(out.max())))
    done.set()

WORKERS.submit(compute)
done.wait(60)
worker, during, product = seen[0]
while threads() > before + 1:
    time.sleep(0.005)
print(during - before, worker.is_alive(), product)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the kernel tells of its threads under /proc")
def test_an_idle_thread_keeps_no_team_of_openmp() -> None:
    """Else the next thread's products wait, each of them, until its own team has been woken up."""
    library = find_library()
    if library is None or library.threads() < 2:
        pytest.skip("there is no oneDNN with more than one thread here")
    environment = {**os.environ, "DTF_ADAPT_THREADS": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    threads, lives, product = ran.stdout.split()
    assert int(threads) > 1, "the product had no team: the test shows nothing"
    assert lives == "True", "the team has ended with its thread only"
    assert float(product) == 784
