"""Threads that share large work treat numbers as the thread does whose work it is."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.denormals import denormals_flushed
from dtfctl.runtime.kernels.into import parallel
from dtfctl.runtime.kernels.into.registry import Into, Spec

F = np.float32


@pytest.mark.parametrize("server_first", [True, False])
def test_denormals_are_the_callers(monkeypatch: pytest.MonkeyPatch, server_first: bool) -> None:
    monkeypatch.setattr(parallel, "granted", lambda: 2)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    monkeypatch.setattr(parallel, "PARTS_EACH", 1)
    monkeypatch.setenv("DTF_ADAPT_THREADS", "0")
    parallel._pool.cache_clear()
    threads: set[str] = set()
    both = threading.Barrier(2)

    def halve(x: Any, out: Any) -> None:
        # Neither goes on before the other has a part too.
        both.wait(60)
        threads.add(threading.current_thread().name)
        np.multiply(x, F(0.5), out)

    x = np.full((2, 64), np.finfo(F).tiny, F)
    spec = Spec(x.shape, x.dtype)
    run = parallel.in_parallel(Into(halve, by_rows=True), [spec], [spec])

    def smallest(flushed: bool) -> Any:
        out = np.ones_like(x)
        if flushed:
            with denormals_flushed():
                run(x, out)
        else:
            run(x, out)
        return np.frombuffer(out.tobytes(), np.uint32).reshape(2, 64)

    try:
        for flushed in (server_first, not server_first, server_first):
            # Bits, because a thread that flushes takes denormal numbers for zeros.
            np.testing.assert_array_equal(smallest(flushed), 0 if flushed else 0x400000)
    finally:
        parallel._pool.cache_clear()
    assert len(threads) > 1
