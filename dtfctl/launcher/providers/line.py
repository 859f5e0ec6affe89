"""What a conversation with a host goes over: a line, on which commands are run there with pipes to them."""

from __future__ import annotations

from typing import Protocol

import asyncssh

from dtfctl.launcher.providers.base import HostFailed

LINE_ERRORS = (OSError, asyncssh.Error)
"""What a line that breaks raises."""
LINE_LOST = (ConnectionError, asyncssh.ConnectionLost)
"""What is raised by writing to a command that has ended, or to a line that is gone."""


class Writer(Protocol):
    """A command's stdin."""

    def write(self, data: bytes) -> None:
        """Send; the bytes wait where the other end is slow."""

    async def drain(self) -> None:
        """Wait until few bytes wait."""

    def write_eof(self) -> None:
        """Say that nothing more comes."""


class Reader(Protocol):
    """A command's stdout or stderr."""

    async def read(self, n: int = -1) -> bytes:
        """Read at most n bytes, or all until its end; empty at its end."""

    async def readline(self) -> bytes:
        """Read a line; empty at its end."""


class Process(Protocol):
    """A command that runs on a host."""

    @property
    def stdin(self) -> Writer:
        """Where it reads."""

    @property
    def stdout(self) -> Reader:
        """What it writes."""

    @property
    def stderr(self) -> Reader:
        """What it writes about errors."""

    @property
    def exit_status(self) -> int | None:
        """How it ended; None where it has not, or nobody knows."""

    def is_closing(self) -> bool:
        """Tell whether nothing more can be said to it."""

    async def wait_closed(self) -> None:
        """Wait until it has ended."""


class Line(Protocol):
    """A way to run commands on one host, as who has logged in there. Belongs to the thread of its event loop."""

    @property
    def is_used(self) -> bool:
        """Whether something goes over it that it must not be closed for being idle."""

    async def run(self, command: str) -> Process:
        """Begin a command line, as a shell there reads it."""

    def is_closed(self) -> bool:
        """Tell whether it cannot be used any more."""

    def watch(self, on: bool) -> None:
        """Look whether the other end is there, or leave that to who watches the bytes move."""

    def why(self, said: str) -> HostFailed | None:
        """Judge why a command ended that wrote no answer, by its last words; None: it was not the line."""

    def close(self) -> None:
        """Give it up; what was started there to stay goes on."""

    def give_up(self) -> None:
        """Give it up before anything was begun there: nothing stays."""

    def abort(self) -> None:
        """Give it up at once, as the other end does not answer."""
