"""The program that speaks with Ray (`bridge.py`), as this process sees it: requests, answers, commands on hosts."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, cast

from dtfctl import guard
from dtfctl.launcher.errors import ClusterFailed, LauncherError
from dtfctl.launcher.providers.ray.bridge import LENGTHS, MOST
from dtfctl.launcher.spec.lent import Ray

HELLO_S = 60.0
ASK_S = 60.0
ENDS_S = 5.0
LEFT_OUT = ("DTF", "PYTHON", "RAY_JOB_")
"""Variables that are not for it. In a `ray job` Ray would take it for one more driver of that: it deletes the job's
working directory when the first of them has ended."""
BRIDGE = Path(__file__).with_name("bridge.py")


class RaySilent(LauncherError):
    """Ray cannot be asked now; what was known of it may still be so."""

    exit_code = ClusterFailed.exit_code


def python_of(ray: Ray) -> str:
    """Choose the Python that Ray is installed for: the file's, this one, or that of the command `ray`.

    Raises:
        ClusterFailed: there is none.
    """
    if ray.python is not None:
        found = shutil.which(os.path.expanduser(ray.python))
        if found is None:
            raise ClusterFailed(f"`ray: {{python: {ray.python}}}` is not there", "name the Python that has Ray")
        return found
    if importlib.util.find_spec("ray") is not None:
        return sys.executable
    command = shutil.which("ray")
    beside = command and shutil.which("python", path=os.path.dirname(os.path.realpath(command)))
    if beside:
        return beside
    raise ClusterFailed(
        "`provider: ray`, but Ray is not installed for this Python, and there is no command `ray`",
        "run this on a node of the Ray cluster, and name the Python that has Ray: `ray: {python: PATH}`",
    )


class Bridge:
    """The running program. Belongs to the thread of its event loop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._commands: dict[int, Command] = {}
        self._early: dict[int, list[tuple[dict[str, Any], bytes]]] = {}
        """What commands said before it was known that they had begun."""
        self._listener: asyncio.Task[None] | None = None
        self.is_closed = False

    @classmethod
    async def begin(cls, ray: Ray) -> Bridge:
        """Start it and wait until it has reached the Ray cluster.

        Raises:
            ClusterFailed: that cannot be. RaySilent: it does not answer.
        """
        python = python_of(ray)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(LEFT_OUT)}
        process = await asyncio.create_subprocess_exec(
            *(python, str(BRIDGE), ray.address),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=kept,
            start_new_session=True,
            limit=MOST,
        )
        self = cls(process)
        try:
            async with asyncio.timeout(HELLO_S):
                header, _ = await self._frame()
        except (TimeoutError, asyncio.IncompleteReadError):
            await self.end()
            raise RaySilent(f"Ray at `{ray.address}` does not answer", "is it up? try: ray status") from None
        if not header["hello"]:
            await self.end()
            if header["cause"] == "python":
                raise ClusterFailed(
                    f"{python} has no Ray: {header['error']}", "name the Python that has it: `ray: {python: PATH}`"
                )
            raise RaySilent(
                f"Ray at `{ray.address}` cannot be reached: {header['error']}",
                "run this on a node of a running Ray cluster (ray start), and name it: `ray: {address: HOST:6379}`",
            )
        self._listener = guard.watched(asyncio.create_task(self._listen()), name="ray")
        return self

    async def _frame(self) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdout is not None
        head, more = LENGTHS.unpack(await self._process.stdout.readexactly(LENGTHS.size))
        header = json.loads(await self._process.stdout.readexactly(head))
        return header, await self._process.stdout.readexactly(more)

    async def _listen(self) -> None:
        try:
            while True:
                header, data = await self._frame()
                if "id" in header:
                    answer = self._answers.pop(header["id"], None)
                    if answer is not None and not answer.done():
                        answer.set_result(header)
                elif header["number"] in self._commands:
                    self._commands[header["number"]].heard(header, data)
                else:
                    self._early.setdefault(header["number"], []).append((header, data))
        except (asyncio.IncompleteReadError, OSError):
            self.is_closed = True
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the program that speaks with Ray has ended"))
        for command in self._commands.values():
            command.heard({"code": None}, b"")

    def send(self, do: str, data: bytes = b"", **values: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request; its answer comes later."""
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        header = json.dumps({"id": number, "do": do, **values}).encode()
        if self.is_closed:
            answer.set_exception(ConnectionError("the program that speaks with Ray has ended"))
            return answer
        assert self._process.stdin is not None
        self._process.stdin.write(LENGTHS.pack(len(header), len(data)) + header + data)
        return answer

    async def ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            RaySilent: there is none. ClusterFailed: Ray refuses.
        """
        try:
            async with asyncio.timeout(ASK_S):
                answer = await self.send(do, **values)
        except (TimeoutError, ConnectionError, OSError):
            raise RaySilent("Ray does not answer", "is it up? try: ray status") from None
        if "error" in answer:
            raise ClusterFailed(f"Ray refuses: {answer['error']}", "look with: ray status")
        return answer

    async def run(self, **values: Any) -> Command:
        """Begin a command on a host.

        Raises:
            ConnectionError: it cannot be.
        """
        answer = await self.send("run", **values)
        if "error" in answer:
            raise ConnectionError(answer["error"])
        command = self._commands[answer["number"]] = Command(self, answer["number"])
        for header, data in self._early.pop(answer["number"], ()):
            command.heard(header, data)
        return command

    async def end(self) -> None:
        """End it; what runs on hosts goes on."""
        self.is_closed = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(ENDS_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


class Command:
    """A command that runs on a host (`line.Process`)."""

    def __init__(self, bridge: Bridge, number: int) -> None:
        self._bridge = bridge
        self._number = number
        self.stdin = _Input(bridge, number)
        self.stdout = asyncio.StreamReader(MOST)
        self.stderr = asyncio.StreamReader(MOST)
        self._code: int | None = None
        self._ended = asyncio.get_running_loop().create_future()

    @property
    def exit_status(self) -> int | None:
        return self._code

    def is_closing(self) -> bool:
        return self._ended.done()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._ended)

    def heard(self, header: dict[str, Any], data: bytes) -> None:
        """Take over what it has written, or how it ended."""
        if self._ended.done():
            return
        if "stream" in header:
            cast(asyncio.StreamReader, getattr(self, header["stream"])).feed_data(data)
            return
        self._code = header["code"]
        self.stdout.feed_eof()
        self.stderr.feed_eof()
        self._ended.set_result(None)

    def close(self) -> None:
        """Say nothing more to it."""
        if not self._ended.done() and not self._bridge.is_closed:
            self._bridge.send("close", number=self._number)
        self.heard({"code": None}, b"")


class _Input:
    """A command's stdin."""

    LEAST_WAITING = 4

    def __init__(self, bridge: Bridge, number: int) -> None:
        self._bridge = bridge
        self._number = number
        self._waiting: list[asyncio.Future[dict[str, Any]]] = []

    def write(self, data: bytes) -> None:
        self._waiting.append(self._bridge.send("write", data, number=self._number, end=False))

    async def drain(self) -> None:
        while len(self._waiting) > self.LEAST_WAITING:
            if "error" in await self._waiting.pop(0):
                raise BrokenPipeError

    def write_eof(self) -> None:
        self._bridge.send("write", number=self._number, end=True)
