"""The peers' environments: made on demand, one for all, never the product's.

`.bench/venv`, or what `DTF_BENCH_PEERS` names, holds TensorFlow, torch, mpi4py with MPICH, Ray and Dask as far as they
can be installed. `DTF_BENCH_TENSORFLOW=/path/to/python` takes an existing environment for TensorFlow instead,
`DTF_BENCH_TORCH` one for torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import ROOT, clean_environment

FOLDER = Path(os.environ.get("DTF_BENCH_PEERS") or ROOT / ".bench" / "venv")


@dataclass(frozen=True)
class Peer:
    """Something to compare with.

    Attributes:
        requirements: what pip installs.
        check: a statement that works when it is there, and prints its version.
        variable: names an environment variable with an interpreter that has it.
    """

    name: str
    requirements: tuple[str, ...]
    check: str
    variable: str = ""
    index: str = ""


PEERS = {
    "tensorflow": Peer(
        "tensorflow",
        ("tensorflow==2.21.0",),
        "import tensorflow; print(tensorflow.__version__)",
        "DTF_BENCH_TENSORFLOW",
    ),
    "torch": Peer(
        "torch",
        ("torch==2.13.0+cpu", "numpy"),
        "import numpy, torch; print(torch.__version__)",
        "DTF_BENCH_TORCH",
        index="https://download.pytorch.org/whl/cpu",
    ),
    "mpi": Peer("mpi", ("mpi4py", "mpich", "numpy"), "import numpy, mpi4py; print(mpi4py.__version__)"),
    "ray": Peer("ray", ("ray[default]",), "import ray; print(ray.__version__)"),
    "dask": Peer("dask", ("distributed", "asyncssh"), "import asyncssh, distributed; print(distributed.__version__)"),
}


_used: dict[str, str] = {}


def used() -> dict[str, str]:
    """The versions of the peers this run has used."""
    return dict(_used)


class Missing(Exception):
    """A peer that cannot be had here; the text says why."""


def interpreter(name: str, say: Callable[[str], None] = lambda text: None) -> tuple[str, str]:
    """An interpreter that has the peer, installing it if need be, and the peer's version.

    Raises:
        Missing: it cannot be installed, or does not import.
    """
    peer = PEERS[name]
    chosen = os.environ.get(peer.variable, "") if peer.variable else ""
    if chosen:
        return chosen, _version(chosen, peer)
    python = str(FOLDER / "bin" / "python")
    if not os.path.exists(python):
        say(f"Making an environment for peers: {FOLDER}")
        _run([sys.executable, "-m", "venv", str(FOLDER)], "make an environment")
    try:
        return python, _version(python, peer)
    except Missing:
        pass
    say(f"Installing {' '.join(peer.requirements)} for comparison (once)")
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
        "--retries",
        "1",
        *peer.requirements,
    ]
    if peer.index:
        command += ["--extra-index-url", peer.index]
    _run(command, f"install {' '.join(peer.requirements)}")
    return python, _version(python, peer)


def _version(python: str, peer: Peer) -> str:
    try:
        done = subprocess.run(
            [python, "-c", peer.check], capture_output=True, text=True, timeout=120, env=clean_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Missing(f"{peer.name}: {python} cannot be run: {e}") from None
    if done.returncode:
        raise Missing(f"{peer.name} does not import: {_last(done.stderr)}")
    _used[peer.name] = done.stdout.strip().splitlines()[-1]
    return _used[peer.name]


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Missing(f"could not {what}: {e}") from None
    if done.returncode:
        raise Missing(f"could not {what}: {_last(done.stderr)}")


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
