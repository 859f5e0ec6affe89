"""A shell on a node of an allocation: a step of Slurm's, by `srun --overlap`, with pipes to it.

What a step starts to stay, an agent, stays for as long as the step lasts, and that is as long as anything that it has
started (`host_step.py`) and as its `srun` here. So a line is closed by closing its pipes, and `srun` goes on in a
session of its own, also when this process has ended; it ends with its step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess

from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.line import Process, Reader, Writer
from dtfctl.launcher.providers.slurm import commands
from dtfctl.launcher.providers.slurm.commands import Node

CARRIED = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ"})
"""What a step gets of this process's variables: as much as a login. `env` in the file says the rest."""
BETWEEN = ("pending execution", "already completing", "invalid job id", "cancelled at", "has expired")
"""What is said of steps of a job that is neither granted nor yet known to be over."""
LINE_BYTES = 2**26


def srun_words(job: str, node: str, command: str) -> list[str]:
    """Write the command that begins a step on a node, with all that the allocation has there."""
    return [
        *("srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}"),
        *("--kill-on-bad-exit=0", "--cpu-bind=none", "--mpi=none", "--unbuffered", "--quiet", "--job-name=dtfctl"),
        *("--chdir=/", "/bin/sh", "-c", command),
    ]


def step_environment(node: Node) -> dict[str, str]:
    """Choose the variables of a step."""
    kept = {key: value for key, value in commands.environment().items() if key in CARRIED or key in commands.KEPT}
    more = {"DTFCTL_STEP": "gpus" if node.has_gpus else "yes", "DTFCTL_CONNECTION": f" 0 {node.address} 0"}
    return {**kept, **more}


class StepProcess:
    """A command that runs as a step."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: Writer, stdout: Reader, stderr: Reader) -> None:
        self._process = process
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        self._ended = asyncio.get_running_loop().create_future()
        self._pidfd = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._has_ended)

    @property
    def stdin(self) -> Writer:
        return self._stdin

    @property
    def stdout(self) -> Reader:
        return self._stdout

    @property
    def stderr(self) -> Reader:
        return self._stderr

    @property
    def exit_status(self) -> int | None:
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def is_closing(self) -> bool:
        return self._ended.done()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._ended)

    def _has_ended(self) -> None:
        self._process.wait()
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        if not self._ended.done():
            self._ended.set_result(None)

    def end(self) -> None:
        """End it with its step, and all that this has started."""
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)


class StepLine:
    """Steps on one node."""

    def __init__(self, job: str, node: Node) -> None:
        self._job = job
        self._node = node
        self._open: list[tuple[StepProcess, list[asyncio.BaseTransport]]] = []
        self._is_closed = False

    @property
    def is_used(self) -> bool:
        return False

    async def run(self, command: str) -> Process:
        loop = asyncio.get_running_loop()
        process = subprocess.Popen(
            srun_words(self._job, self._node.name, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=step_environment(self._node),
            start_new_session=True,
            cwd="/",
        )
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        transports: list[asyncio.BaseTransport] = []
        readers = []
        for pipe in (process.stdout, process.stderr):
            reader = asyncio.StreamReader(LINE_BYTES)
            transport, _ = await loop.connect_read_pipe(lambda r=reader: asyncio.StreamReaderProtocol(r), pipe)  # type: ignore[misc]
            transports.append(transport)
            readers.append(reader)
        flow, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        transports.append(flow)
        writer = asyncio.StreamWriter(flow, protocol, None, loop)
        step = StepProcess(process, writer, *readers)
        self._open.append((step, transports))
        return step

    def is_closed(self) -> bool:
        return self._is_closed

    def watch(self, on: bool) -> None:
        """Look at nothing: heartbeats say whether a node is there."""

    def why(self, said: str) -> HostFailed | None:
        if "srun: error" not in said and "slurmstepd: error" not in said:
            return None
        if any(text in said.lower() for text in BETWEEN):
            return HostFailed("queued", f"Slurm job {self._job} ends, or is about to begin anew")
        text = commands.first_error(said, "srun")
        where = f"look with: scontrol show node {self._node.name}"
        return HostFailed("unreachable", f"no step on {self._node.name}: {text}", where)

    def close(self) -> None:
        self._is_closed = True
        for _, transports in self._open:
            for transport in transports:
                transport.close()

    def give_up(self) -> None:
        self.close()
        for step, _ in self._open:  # it would wait for a node that is gone for as long as the allocation lasts
            step.end()

    def abort(self) -> None:
        self.close()
