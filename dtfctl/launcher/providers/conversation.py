"""One line to a host, and at its end a process of `host_side.py`: requests and uploads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.launcher.providers.base import HostFailed, Stage
from dtfctl.launcher.providers.line import LINE_ERRORS, LINE_LOST, Line, Process

PARTS = (
    *("host_base", "host_step", "host_unpack", "host_python", "host_layers", "host_offers"),
    *("host_files", "host_keys", "host_agent", "host_owner", "host_side"),
)
"""The modules of the program that runs on hosts; each imports only those before it."""
PACKAGE = "dtfctl.launcher.providers"
REPLY = "dtfctl:"
HELLO_S = 30.0
END_S = 2.0
EXIT_S = 10.0
"""Between the last output of a command and its exit status."""
ASK_S = 30.0
UPLOAD_BLOCK = 128 * 2**10
STALL_S = 60.0
"""An upload that moves nothing for this long has failed."""
PYTHONS = (
    *("python3", "python3.14", "python3.13", "python3.12", "python3.11"),
    *("/usr/local/bin/python3", "$HOME/.pyenv/shims/python3", "$HOME/miniconda3/bin/python3", "/opt/conda/bin/python3"),
)
NO_PYTHON_EXIT = 96
KEPT_STDERR = 4000
SIGN_S = 30.0
"""A fraction of `host_side.LONGEST_IDLE_S`."""
NO_START = "1|126|127"
"""How a Python ends that is broken, or cannot import dtfctl; `serve` does not end so."""
ROOM = 1000
"""Bytes of a command line: the agent, a fork, puts its own there (`agent/fork.py`)."""


def source() -> bytes:
    """Make the program that runs on hosts: its modules, under the names that they import each other by."""
    folder = Path(__file__).parent
    texts = {name: (folder / f"{name}.py").read_text() for name in PARTS}
    return (
        "import sys\n"
        f"package = sys.modules[{PACKAGE!r}] = type(sys)({PACKAGE!r})\n"
        f"for name, text in {texts!r}.items():\n"
        f"    module = sys.modules[{PACKAGE!r} + '.' + name] = type(sys)({PACKAGE!r} + '.' + name)\n"
        "    setattr(package, name, module)\n"
        "    exec(compile(text, name + '.py', 'exec'), module.__dict__)\n"
        "module.serve()\n"
    ).encode()


def bootstrap(size: int, runtimes: Sequence[str] = (), home: str | None = None) -> str:
    """Write the command that runs `host_side.py`, for any login shell.

    It takes dtfctl's own Python where one of `runtimes` is there already and runs, else any, which reads the program
    (`size` bytes) from stdin.

    Args:
        home: where all that is dtfctl's own lies there; `~/.dtfctl` by default. No shell changes it (`HOST_FOLDER`).
    """
    base = (home or "~/.dtfctl").replace("~", "$HOME", 1)
    names = " ".join(f'"{name}"' for name in PYTHONS)
    ours = f"from dtfctl.launcher.providers.host_side import serve; serve({size})".ljust(ROOM)
    return (
        f'exec /bin/sh -c \'DTFCTL_BASE="{base}"; export DTFCTL_BASE; '
        f"for r in {' '.join(runtimes)}; do "
        'p="$DTFCTL_BASE/runtime/$r/bin/python"; '
        f'if [ -x "$p" ]; then "$p" -I -c "{ours}"; s=$?; case $s in {NO_START}) ;; *) exit $s ;; esac; fi; done; '
        f"for p in {names}; do "
        'if command -v "$p" >/dev/null 2>&1 && '
        '"$p" -I -S -c "import sys; sys.exit(sys.version_info < (3, 11))" </dev/null >/dev/null 2>&1; then '
        f'exec "$p" -I -S -c "import sys; exec(sys.stdin.buffer.read({size}))"; '
        f"fi; done; exit {NO_PYTHON_EXIT}'"
    )


class Conversation:
    """A line to a host and the process of `host_side.py` at its end."""

    def __init__(self, line: Line, process: Process) -> None:
        self.line = line
        self._process = process
        self._lock = asyncio.Lock()
        self._facts: dict[str, Any] = {}
        self._said = b""
        self._listener = guard.watched(asyncio.create_task(self._listen()), name="ssh-stderr")
        self._signs = guard.watched(asyncio.create_task(self._give_signs()), name="ssh-signs")
        self.offers = 0
        """Other hosts that may be getting layers from this one."""
        self.used = asyncio.get_running_loop().time()

    @classmethod
    async def begin(cls, line: Line, runtimes: Sequence[str], home: str | None = None) -> Conversation:
        """Begin a conversation. `runtimes`: of which one may be there. `home`: see `bootstrap`."""
        program = source()
        self: Conversation | None = None
        try:
            async with asyncio.timeout(HELLO_S):
                process = await line.run(bootstrap(len(program), runtimes, home))
                self = cls(line, process)
                self._send(program)
                await self._reply()
        except BaseException:
            if self is not None:
                self._signs.cancel()
            line.give_up()
            raise
        return self

    @property
    def is_open(self) -> bool:
        return not self.line.is_closed() and not self._process.is_closing()

    async def ask(
        self, request: dict[str, Any], within_s: float, on_stage: Callable[[Stage, str], None] = lambda *_: None
    ) -> dict[str, Any]:
        """Send one request and wait for its reply.

        Raises:
            HostFailed: the host says so, or it does not answer in time, or the connection is lost.
        """
        async with self._lock:
            loop = asyncio.get_running_loop()
            self.used = loop.time()
            try:
                async with asyncio.timeout(within_s):
                    self._send(json.dumps(request).encode() + b"\n")
                    while True:
                        reply = await self._reply()
                        if "stage" not in reply:
                            break
                        on_stage(reply["stage"], reply["detail"])
            except TimeoutError:
                self.line.abort()
                raise HostFailed("unreachable", f"no answer within {within_s:g} s") from None
            except LINE_ERRORS as error:
                raise HostFailed("unreachable", f"the connection was lost: {error}") from None
            finally:
                self.used = loop.time()
        if "error" in reply:
            raise HostFailed(reply["cause"], reply["error"], reply.get("hint", ""))
        self._facts = reply.get("facts", self._facts)
        return reply

    async def facts(self) -> dict[str, Any]:
        """Tell what the host has last said about itself; it is asked where it has not yet."""
        if not self._facts:
            await self.ask({"do": "look", "cluster": "", "host": ""}, ASK_S)
        return self._facts

    async def _give_signs(self) -> None:
        """Keep the process there from ending, as it does where nobody has asked it for anything in a while.

        What is to be sent may have to be downloaded first, or to wait for other hosts.
        """
        while self.is_open:
            await asyncio.sleep(SIGN_S / 2)
            if self.is_open and not self._lock.locked() and asyncio.get_running_loop().time() - self.used >= SIGN_S / 2:
                with contextlib.suppress(HostFailed):  # closed then, and found so by who needs it next
                    await self.ask({"do": "nothing"}, ASK_S)

    def _send(self, data: bytes) -> None:
        """Send to the process there, or to nobody where it has ended: why is known once its output was read."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)

    async def _reply(self) -> dict[str, Any]:
        while True:
            line = await self._process.stdout.readline()
            if not line:
                raise await self._gone()
            text = line.decode(errors="replace")
            if text.startswith(REPLY):
                reply: dict[str, Any] = json.loads(text[len(REPLY) :])
                return reply

    async def _listen(self) -> None:
        """Keep the end of what is said on stderr: it is shown where the program there fails."""
        with contextlib.suppress(*LINE_ERRORS):
            while data := await self._process.stderr.read(KEPT_STDERR):
                self._said = (self._said + data)[-KEPT_STDERR:]

    async def _gone(self) -> HostFailed:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_S):
                await self._process.wait_closed()
                await self._listener
        lines = self._said.decode(errors="replace").strip().splitlines()
        said = f": {lines[-1].strip()[:500]}" if lines else ""
        of_the_line = self.line.why(self._said.decode(errors="replace"))
        if of_the_line is not None:
            return of_the_line
        # Without an exit status the connection is gone, and what happened there is not known.
        if self._process.exit_status == NO_PYTHON_EXIT:
            return HostFailed("python", "no Python 3.11 or newer", "install one; `python3` must find it")
        if self._process.exit_status is None:
            return HostFailed("unreachable", f"the connection was lost{said}")
        return HostFailed("install", f"its shell ended with {self._process.exit_status} before it answered{said}")

    async def upload(self, path: Path, base: str, on_share: Callable[[float], None]) -> str:
        """Send a file through a command of its own; its path there. A third of what SFTP costs both ends, and servers
        need not have that."""
        target = f"{base}/tmp/{path.name}.{secrets.token_hex(6)}"
        size, sent = max(1, path.stat().st_size), 0
        loop = asyncio.get_running_loop()
        # On a slow link an answer waits behind what is being sent; that the bytes move is watched instead.
        self.line.watch(False)
        try:
            async with asyncio.timeout(STALL_S) as limit:
                where = shlex.quote(target)
                command = f"exec /bin/sh -c {shlex.quote(f'umask 077; cat > {where} || {{ rm -f {where}; exit 1; }}')}"
                process = await self.line.run(command)
                with contextlib.suppress(*LINE_LOST):  # it says why, or its status does
                    with path.open("rb") as file:
                        while block := file.read(UPLOAD_BLOCK):
                            process.stdin.write(block)
                            await process.stdin.drain()
                            sent += len(block)
                            self.used = loop.time()
                            limit.reschedule(self.used + STALL_S)
                            on_share(sent / size)
                    process.stdin.write_eof()
                said = (await process.stderr.read()).decode(errors="replace").strip()
                await process.wait_closed()
        except TimeoutError:
            self.line.abort()
            raise HostFailed("unreachable", f"the upload of {path.name} stalled for {STALL_S:g} s") from None
        except LINE_ERRORS as error:
            raise HostFailed("unreachable", f"the connection was lost while sending: {error}") from None
        if process.exit_status is None:
            raise HostFailed("unreachable", "the connection was lost while sending")
        if process.exit_status != 0:
            if "space" in said.lower() or "quota" in said.lower():
                raise HostFailed("disk", f"no space left on the disk below {base}")
            raise HostFailed("install", f"upload: {(said.splitlines() or ['it failed'])[-1][:300]}")
        self.line.watch(True)
        return target

    @property
    def is_needed(self) -> bool:
        """Something goes through it that it must not be closed for being idle."""
        return self.line.is_used or self.offers > 0

    def close(self) -> None:
        self._signs.cancel()
        self.line.close()

    async def end(self) -> None:
        """Close it once the process there has ended: who takes a cluster down leaves nothing running."""
        if self.is_open:
            with contextlib.suppress(TimeoutError, *LINE_ERRORS):
                async with asyncio.timeout(END_S):
                    self._process.stdin.write_eof()
                    await self._process.wait_closed()
        self.close()
