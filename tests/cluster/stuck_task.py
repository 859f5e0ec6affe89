"""A real task in which something gets stuck for ever when a file of that name appears in its state folder."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dtfctl import task
from dtfctl.runtime.executor.workers import WORKERS
from dtfctl.runtime.services.pulse import ReactorProbe

NEVER = threading.Event()
HOLD_S = 9.0
"""Longer than any silence that is forgiven."""


def stick_reactor() -> None:
    """What reads all links waits for something that does not come."""
    ReactorProbe().ask(lambda _served: print("stuck in the reactor", NEVER.wait(), flush=True))


def stick_calls() -> None:
    """No thread for a call can be had: somebody keeps the lock."""
    for pool in (WORKERS._keeping, WORKERS._flushing):
        pool._lock.acquire()


def hold_lock() -> None:
    """Compute for long and let no other thread run, as a kernel that forgets the interpreter lock does."""
    power, took = 1_000_000, 0.0
    while took < HOLD_S:
        begun = time.monotonic()
        _number = 3**power
        took = time.monotonic() - begun
        power = int(power * min(4.0, max(1.2, HOLD_S / max(took, 0.001))))
    print(f"held for {took:.1f} s", flush=True)


KINDS: dict[str, Callable[[], None]] = {"reactor": stick_reactor, "calls": stick_calls, "lock": hold_lock}


def watch(folder: Path) -> None:
    while True:
        time.sleep(0.05)
        for name, act in KINDS.items():
            path = folder / name
            if path.exists():
                path.unlink()
                print(f"told to get stuck: {name}", flush=True)
                act()


if __name__ == "__main__":
    state = Path(json.loads(Path(sys.argv[1]).read_bytes())["state_folder"])
    threading.Thread(target=watch, args=(state,), daemon=True).start()
    sys.exit(task.main())
