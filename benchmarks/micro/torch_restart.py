"""python -m benchmarks.micro.torch_restart --torch PYTHON: from kill -9 of a torch rank until all ranks train again.

The same program with two ranks (gloo) is started by `dtfctl submit --framework torch` on a local cluster, by torchrun
as it is by default, by torchrun with restarts, and by torchrun with two agents that rendezvous (c10d), as on two hosts.
Each round starts it anew and kills rank 1. Time counts from there until every rank of the next start has taken a step.
What the ranks of that start took to import torch, with what its first step would import (torch._dynamo), stands beside
it, and so do the parts of the rest: until the program's first line runs in all of them, until they have met, and until
the step is done.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_ports

RANKS = 2
NEVER_S = 120.0
SETTLED_S = 2.0
START_S = 180.0
PARTS = (
    "training again s (median, most)",
    "of it imports s",
    "the rest s",
    "of that until the program runs",
    "until all have met",
    "until the first step is done",
)
PROGRAM = """
import json, os, time
begun = time.time()
import torch, torch._dynamo, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
imported = time.time()
dist.init_process_group("gloo")
met = time.time()
model = DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
said = False
while True:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
    if not said:
        said = True
        path = os.path.join({folder!r}, f"{{time.time_ns()}}-{{dist.get_rank()}}.json")
        with open(path + ".tmp", "w") as file:
            json.dump({{"rank": dist.get_rank(), "pid": os.getpid(), "begun": begun, "imported": imported, "met": met,
                       "trained": time.time()}}, file)
        os.rename(path + ".tmp", path)
    time.sleep(0.01)
"""


@dataclass(frozen=True, slots=True)
class First:
    """The first step that a rank of some start has taken."""

    rank: int
    pid: int
    begun: float
    imported: float
    met: float
    trained: float


def firsts(folder: Path) -> list[First]:
    return [First(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def wait_start(folder: Path, after: set[int], give_up_s: float) -> dict[int, First] | None:
    """Wait until every rank has taken a step in a process that is not `after`; None: that was not to be."""
    deadline = time.monotonic() + give_up_s
    while time.monotonic() < deadline:
        found = {first.rank: first for first in firsts(folder) if first.pid not in after}
        if len(found) == RANKS:
            return found
        time.sleep(0.005)
    return None


@contextlib.contextmanager
def ours(python: str, program: Path) -> Iterator[None]:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.model import JobRequest
    from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup

    cluster = Cluster.up(ClusterSpec("torch", {"worker": TaskGroup(RANKS)})).cluster
    assert cluster is not None
    try:
        cluster.submit(JobRequest(str(program), framework="torch", python=python))
        yield
    finally:
        cluster.down(grace_s=1.0)


@contextlib.contextmanager
def torchrun(python: str, program: Path, *options: str, agents: int = 1) -> Iterator[None]:
    words = [python, "-m", "torch.distributed.run", *options, f"--nproc-per-node={RANKS // agents}", str(program)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    running = [subprocess.Popen(words, **quiet) for _ in range(agents)]  # type: ignore[call-overload]
    try:
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20.0)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--torch", default=os.environ.get("DTF_TEST_TORCH", ""), help="a python with torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="leave out ways whose names do not begin with this")
    options = parser.parse_args()
    if not options.torch:
        sys.exit("name a python with torch: --torch, or DTF_TEST_TORCH")
    python = options.torch
    ways: dict[str, Callable[[Path], contextlib.AbstractContextManager[None]]] = {
        "dtfctl submit --framework torch": lambda program: ours(python, program),
        "torchrun": lambda program: torchrun(python, program, "--standalone"),
        "torchrun --max-restarts=3": lambda program: torchrun(python, program, "--standalone", "--max-restarts=3"),
        "torchrun --max-restarts=3, two agents": lambda program: torchrun(
            python, program, "--max-restarts=3", "--nnodes=2", *meeting(), agents=2
        ),
    }
    print(f"| started by | {' | '.join(PARTS)} |\n|---{'|---' * len(PARTS)}|", flush=True)
    for name, begin in ways.items():
        if name.startswith(options.only):
            print(f"| {name} | {measure(begin, options.rounds)} |", flush=True)


def meeting() -> tuple[str, ...]:
    """Say where agents of torchrun meet."""
    return ("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_ports(1)[0]}", "--rdzv-id=bench")


def measure(begin: Callable[[Path], contextlib.AbstractContextManager[None]], rounds: int) -> str:
    """Start the program anew for each round, and kill rank 1 in it; what it took."""
    seen: list[tuple[float, ...]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="dtf-bench-") as temporary:
            os.environ["DTFCTL_HOME"] = f"{temporary}/home"
            folder = Path(temporary) / "said"
            folder.mkdir()
            program = Path(temporary) / "program.py"
            program.write_text(PROGRAM.format(folder=str(folder)))
            with begin(program):
                first = wait_start(folder, set(), START_S)
                if first is None:
                    return "does not start" + " |" * (len(PARTS) - 1)
                time.sleep(SETTLED_S)
                killed = time.time()
                os.kill(first[1].pid, signal.SIGKILL)
                again = wait_start(folder, {one.pid for one in first.values()}, NEVER_S)
            if again is not None:
                seen.append(parts(killed, list(again.values())))
            elif not seen:
                break  # another round would tell no more
    if not seen:
        return f"never (not within {NEVER_S:.0f} s)" + " |" * (len(PARTS) - 1)
    found = " | ".join(f"{statistics.median(times):.2f} ({max(times):.2f})" for times in zip(*seen, strict=True))
    return (
        found if len(seen) == rounds else f"{rounds - len(seen)} of {rounds} not within {NEVER_S:.0f} s, else {found}"
    )


def parts(killed: float, again: list[First]) -> tuple[float, ...]:
    """Divide the time from the kill to training into PARTS; the slowest rank counts."""
    begun, imported = max(one.begun for one in again), max(one.imported for one in again)
    met, trained = max(one.met for one in again), max(one.trained for one in again)
    whole, imports = trained - killed, imported - begun
    return whole, imports, whole - imports, begun - killed, met - imported, trained - met


if __name__ == "__main__":
    main()
