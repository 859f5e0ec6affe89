"""A command on a host: what it is given and what it writes, passed on by the controller."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dtfctl.values import value

Stream: TypeAlias = Literal["out", "err"]


@value
class TerminalSize:
    """How large the caller's terminal is."""

    rows: int = 0
    columns: int = 0


@value
class ExecStart:
    """The command; the first message of its talk."""

    host: str
    """The host by which the controller finds the agent."""
    command: tuple[str, ...]
    process: str = ""
    """The process whose environment the command gets: `worker/1`, `job:ID:worker/0`; empty: the host's."""
    terminal: bool = False
    """Whether the command runs on a pseudo-terminal; its output is all `out` then."""
    size: TerminalSize = TerminalSize()
    term: str = ""
    """The type of the caller's terminal."""
    folder: str = ""
    """The folder of the job of `process`, which may have ended; the controller knows it."""


@value
class Input:
    """Bytes for its stdin."""

    data: bytes


@value
class EndOfInput:
    """The end of its stdin."""


@value
class Signal:
    """A signal to its process group."""

    number: int


@value
class ExecInput:
    """What the caller of a command says."""

    what: ExecStart | Input | EndOfInput | TerminalSize | Signal


@value
class Output:
    """Bytes that it wrote."""

    data: bytes
    stream: Stream = "out"


@value
class Exited:
    """The end of a command, and the last message; 128 + signal number, 126 and 127 as a shell has them."""

    code: int = 0


@value
class ExecOutput:
    """What a command says."""

    what: Output | Exited
