"""Child processes of a run: the drivers and servers of each side. All end with the run.

Whatever a run starts, and what that starts in turn, has the run's mark in its environment, so that also daemons that
have left their parents are found and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent
START_S = 90.0
# Pins that would decide a library's speed for it; cleared for every side.
PINS = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_CONFIG",
    "DTF_TARGET",
)
_TICKS = os.sysconf("SC_CLK_TCK")
_MARK = f"DTF_BENCH_RUN={os.getpid()}-{secrets.token_hex(8)}"
# Looks for what was started while the others were ended.
_MOST_SWEEPS = 20


class ChildError(Exception):
    """A child process failed, died, or took too long; the text holds what it said."""


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment without pins, quiet, with the repository importable."""
    out = {k: v for k, v in os.environ.items() if k not in PINS}
    mark, _, run = _MARK.partition("=")
    out |= {
        mark: run,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "1",
    }
    return out | dict(more or {})


def sweep() -> list[str]:
    """End every process of this run that is still there; their command lines."""
    found: dict[int, str] = {}
    for _ in range(_MOST_SWEEPS):
        alive = _marked()
        if not alive:
            break
        found |= alive
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    return list(found.values())


def _marked() -> dict[int, str]:
    """Command lines of the run's living processes, by pid; those that have ended but were not waited for aside."""
    out = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if _MARK.encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            out[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            # It has ended meanwhile, or is somebody else's.
            continue
    out.pop(os.getpid(), None)
    return out


class Child:
    """A process that answers on its standard output with a JSON object a line.

    Args:
        command: argv.
        what: names it in errors.
    """

    def __init__(self, command: Sequence[str], what: str, environment: Mapping[str, str] | None = None) -> None:
        self.what = what
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=clean_environment(environment),
            cwd=ROOT,
            start_new_session=True,
        )
        self._rest = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, command: Mapping[str, Any], within_s: float = 120.0) -> dict[str, Any]:
        """Send a command, wait for its answer.

        Raises:
            ChildError: it failed there, or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(f"{self.what} has ended:\n{self.said()}") from None
        answer = self.read(within_s)
        if "error" in answer:
            raise ChildError(f"{self.what}: {answer['error']}\n{answer.get('traceback', '')}")
        return answer

    def read(self, within_s: float = START_S) -> dict[str, Any]:
        """The next answer."""
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        until = time.monotonic() + within_s
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise ChildError(f"{self.what} did not answer within {within_s:g} s:\n{self.said()}")
            data = os.read(handle, 1 << 20)
            if not data:
                raise ChildError(f"{self.what} has ended:\n{self.said()}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))

    def said(self) -> str:
        """The end of what it printed."""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(size - 3000, 0))
        return self._said.read().decode(errors="replace")

    def resident_bytes(self) -> int:
        """Memory resident now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise ChildError(f"{self.what} has ended:\n{self.said()}")

    def cpu_s(self) -> float:
        """CPU time used so far by the process and its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def stop(self, grace_s: float = 0.0) -> None:
        """End it and whatever it started; `grace_s` lets it end by itself first."""
        if grace_s and self._process.stdin is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._process.stdin.close()
                self._process.wait(grace_s)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._said.close()


class Servers:
    """The tasks of a cluster, one process each.

    Args:
        jobs: how many tasks of each job.
    """

    def __init__(self, python: str, runtime: str, jobs: Mapping[str, int], environment: Mapping[str, str]) -> None:
        names = [(job, i) for job, count in jobs.items() for i in range(count)]
        ports = dict(zip(names, free_ports(len(names))))
        cluster = json.dumps({job: [f"127.0.0.1:{ports[job, i]}" for i in range(n)] for job, n in jobs.items()})
        self.tasks: dict[str, Child] = {}
        self.targets: dict[str, str] = {}
        try:
            for job, i in names:
                command = [python, "-m", "benchmarks.server", runtime, cluster, job, str(i)]
                self.tasks[f"{job}/{i}"] = Child(command, f"{runtime} server {job}/{i}", environment)
            for name, task in self.tasks.items():
                self.targets[name] = task.read()["target"]
        except BaseException:
            self.stop()
            raise

    def cpu_s(self) -> float:
        return sum(task.cpu_s() for task in self.tasks.values())

    def stop(self) -> None:
        for task in self.tasks.values():
            task.stop()


class Side:
    """One of those compared: a runtime with its settings. Starts drivers and servers as they are needed, keeps them.

    Attributes:
        name: as in results: "ours", "ours (tcp)", "TensorFlow".
    """

    def __init__(
        self, name: str, runtime: str, python: str, environment: Mapping[str, str] | None = None, target: str = ""
    ) -> None:
        self.name = name
        self.runtime = runtime
        self.python = python
        self.environment = dict(environment or {})
        self._driver: Child | None = None
        self._servers: dict[tuple[tuple[str, int], ...], Servers] = {}

    def _make_driver(self) -> Child:
        return Child([self.python, "-m", "benchmarks.driver", self.runtime], f"{self.name} driver", self.environment)

    def driver(self) -> Child:
        if self._driver is None:
            child = self._make_driver()
            try:
                child.read()
            except BaseException:
                child.stop()
                raise
            self._driver = child
        return self._driver

    def servers(self, jobs: Mapping[str, int]) -> Servers:
        key = tuple(sorted(jobs.items()))
        found = self._servers.get(key)
        if found is None:
            found = self._servers[key] = Servers(self.python, self.runtime, jobs, self.environment)
        return found

    def own_servers(self, jobs: Mapping[str, int]) -> Servers:
        """A cluster for one case alone; the caller stops it."""
        return Servers(self.python, self.runtime, jobs, self.environment)

    def own_driver(self) -> Child:
        """A driver for one case alone; the caller stops it."""
        child = self._make_driver()
        child.read()
        return child

    def stop(self) -> None:
        """End all of it; what is used afterwards starts afresh."""
        if self._driver is not None:
            self._driver.stop()
            self._driver = None
        for servers in self._servers.values():
            servers.stop()
        self._servers.clear()
