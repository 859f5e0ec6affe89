"""Commands and files on the cluster's hosts, from the user's side: who is meant, and the streams to them."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dtfctl.launcher.errors import ConnectionLost, LauncherError, NoSuchTask, NotFound, UsageError
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.commands import (
    EndOfInput,
    ExecInput,
    ExecOutput,
    ExecStart,
    Exited,
    Input,
    Output,
    TerminalSize,
)
from dtfctl.launcher.messages.files import (
    Content,
    FetchRequest,
    FilePart,
    Skipped,
    StoreInput,
    StoreStart,
    TotalBytes,
)
from dtfctl.launcher.model import ClusterStatus
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.rpc.client import Talk
from dtfctl.launcher.rpc.method import PeerUnavailable
from dtfctl.launcher.selectors import select
from dtfctl.launcher.transfer import trees
from dtfctl.launcher.transfer.trees import Received

OnBytes = Callable[[int, int | None], None]
"""Hears (bytes that were just moved, bytes in all where that was just learnt)."""


def unheard(_moved: int, _total: int | None) -> None:
    """Ignore what is told."""


@dataclass(frozen=True, slots=True)
class Target:
    """A host, and the task or process on it whose surroundings are meant."""

    name: str
    """`worker/1`, `digits-1:worker/0` or `host:NAME`."""
    host: str
    process: str
    """The process as the agent calls it; empty for the host itself."""


def targets(selector: str, status: ClusterStatus) -> list[Target]:
    """Find whom `selector` means: tasks, `host:NAME`, or processes of a job (`job:ID`, or one, `job:ID:worker/0`).

    Raises:
        UsageError, NotFound: it is no selector, or names nothing.
    """
    found: dict[str, Target] = {}
    for part in filter(None, (word.strip() for word in selector.split(","))):
        for target in _targets_of(part, status):
            found[target.name] = target
    if not found:
        raise NoSuchTask(f"{selector!r} names no task", "look with: dtfctl status")
    return list(found.values())


def _targets_of(part: str, status: ClusterStatus) -> list[Target]:
    if part.startswith("host:"):
        name = part.removeprefix("host:")
        if all(host.name != name for host in status.hosts):
            known = ", ".join(host.name for host in status.hosts[:8])
            raise NotFound(f"there is no host {name!r}", f"hosts of this cluster: {known}")
        return [Target(part, name, "")]
    job_id, _, process = part.removeprefix("job:").partition(":")
    for job in status.jobs:
        if job.id == job_id:
            clients = [client for client in job.clients if process in ("", client.name)]
            if not clients:
                raise NotFound(f"{part} has no process", f"look with: dtfctl job {job_id}")
            return [Target(f"{job.id}:{client.name}", client.host, f"job:{job.id}:{client.name}") for client in clients]
    if part.startswith("job:"):
        raise NotFound(f"there is no job {job_id!r}", "look with: dtfctl jobs")
    return [Target(task.name, task.host, task.name) for task in select(part, status.tasks)]


def one_per_host(found: Sequence[Target]) -> list[Target]:
    """Choose the first target of each host."""
    first: dict[str, Target] = {}
    for target in found:
        first.setdefault(target.host, target)
    return list(first.values())


@dataclass(frozen=True, slots=True)
class Terminal:
    """The caller's terminal."""

    rows: int
    columns: int
    term: str


class Command:
    """One command on one host. Iterate over it for its output, then read `exit_code`; `close` ends it there."""

    def __init__(
        self, connection: Connection, target: Target, words: Sequence[str], terminal: Terminal | None = None
    ) -> None:
        start = ExecStart(target.host, tuple(words), target.process)
        if terminal is not None:
            size = TerminalSize(terminal.rows, terminal.columns)
            start = replace(start, terminal=True, term=terminal.term, size=size)
        self.target = target
        self.exit_code: int | None = None
        self._inputs: queue.Queue[ExecInput | None] = queue.Queue(64)
        self._resized: TerminalSize | None = None
        """The newest size that has not been sent."""
        requests = self._requests(ExecInput(start))
        self._talk: Talk[ExecOutput] = connection.channel().talk(controller_calls.EXEC, requests)

    def _requests(self, start: ExecInput) -> Iterator[ExecInput]:
        yield start
        while (item := self._inputs.get()) is not None:
            size, self._resized = self._resized, None
            if size is not None:
                yield ExecInput(size)
            if not isinstance(item.what, TerminalSize):
                yield item

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield the command's output, ("out" or "err", bytes).

        Raises:
            ConnectionLost: the host or the controller went away; nobody knows how the command ended.
        """
        try:
            for item in self._talk:
                match item.what:
                    case Output(data, stream):
                        yield stream, data
                    case Exited(code):
                        self.exit_code = code
        except PeerUnavailable as error:
            raise ConnectionLost(f"{self.target.name}: {error.message}") from None
        if self.exit_code is None:
            raise ConnectionLost(f"{self.target.name}: the command's end was not reported")

    def write(self, data: bytes) -> None:
        """Write to the command's stdin; whoever sends waits while the command does not read. Any thread."""
        self._inputs.put(ExecInput(Input(data)))

    def end_input(self) -> None:
        self._inputs.put(ExecInput(EndOfInput()))

    def resize(self, rows: int, columns: int) -> None:
        """Tell the command of the terminal's new size. Never waits: handlers of signals call it."""
        self._resized = size = TerminalSize(rows, columns)
        with contextlib.suppress(queue.Full):  # it goes with what is sent next
            self._inputs.put_nowait(ExecInput(size))

    def close(self) -> None:
        """End it, and all it has started, if it still runs."""
        self._talk.cancel()
        try:
            self._inputs.put_nowait(None)
        except queue.Full:  # the talk is over, and with it the thread that would read this
            return


def fetch(connection: Connection, target: Target, path: str, destination: Path, on_bytes: OnBytes) -> Received:
    """Copy a file or folder from a host to `destination`, which is its new name here.

    Raises:
        NotFound, TransferFailed, ConnectionLost, NoSpace.
    """
    request = FetchRequest(target.host, target.process, path)
    parts = connection.channel().stream(controller_calls.FETCH, request)
    try:
        return trees.receive(_counted(parts, on_bytes), destination)
    except PeerUnavailable as error:
        raise ConnectionLost(f"{target.name}: {error.message}") from None


def store(connection: Connection, source: Path, target: Target, path: str, on_bytes: OnBytes) -> Received:
    """Copy a file or folder from here to a host: into the folder `path`, or to this new name.

    Raises:
        NotFound, TransferFailed, ConnectionLost, NoSpace.
    """
    start = StoreStart(target.host, target.process, path, source.resolve().name)
    skipped: list[str] = []
    failures: list[LauncherError] = []

    def requests() -> Iterator[StoreInput]:
        yield StoreInput(start)
        try:
            for part in _counted(trees.send(source), on_bytes):
                if isinstance(part.what, Skipped):
                    skipped.append(part.what.path)
                yield StoreInput(part)
        except LauncherError as error:  # the stream ends without `done`: the other side throws away what it has
            failures.append(error)

    talk = connection.channel().talk(controller_calls.STORE, requests())
    try:
        reply = next(iter(talk), None)
    except PeerUnavailable as error:
        raise ConnectionLost(f"{target.name}: {error.message}") from None
    except LauncherError as error:
        raise (failures[0] if failures else error) from None
    if reply is None:
        raise ConnectionLost(f"{target.name}: the end of the transfer was not reported")
    return Received(Path(reply.path), reply.files, reply.bytes, tuple(skipped))


def _counted(parts: Iterable[FilePart], on_bytes: OnBytes) -> Iterator[FilePart]:
    for part in parts:
        match part.what:
            case TotalBytes(count):
                on_bytes(0, count)
            case Content(data):
                on_bytes(len(data), None)
        yield part


def split_place(text: str) -> tuple[str, str] | None:
    """Split `worker/1:data/x` into (selector, path); None where the text is a path of this machine.

    Raises:
        UsageError: there is a selector but no path.
    """
    prefix = next((word for word in ("host:", "job:") if text.startswith(word)), "")
    selector, colon, path = text.removeprefix(prefix).partition(":")
    if prefix == "job:" and path.partition(":")[1] and "/" in path.partition(":")[0]:
        process, _, rest = path.partition(":")
        head, tail = process.rpartition("/")[::2]
        if head.isidentifier() and tail.isdigit():
            selector, path = f"{selector}:{process}", rest
    if not colon:
        if prefix:
            raise UsageError(f"{text!r} names no path", f"for example: {text}:data.csv")
        return None
    if not prefix and (selector.startswith((".", "/", "~")) or not selector):
        return None
    return prefix + selector, path or "."
