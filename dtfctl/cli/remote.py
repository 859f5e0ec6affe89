"""Commands that reach into hosts: `exec`, `attach`, `ssh`, `get`, `put`."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtfctl import guard
from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import plural, size
from dtfctl.cli._output import SourceWriter
from dtfctl.cli._transfer import Bar
from dtfctl.launcher.errors import LauncherError, PartlyDone, UsageError
from dtfctl.launcher.model import LogLine

if TYPE_CHECKING:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.operator.host_access import Command, Target, Terminal
    from dtfctl.launcher.transfer.trees import Received

INPUT_BYTES = 64 * 1024
MOST_PARALLEL = 64


@command(
    examples=[
        "dtfctl exec worker/1 -- nvidia-smi",
        "dtfctl exec -t worker/0 -- bash",
        "dtfctl exec worker --each -- env",
        "dtfctl exec host:node3 -- df -h",
        "dtfctl exec job:digits-1 --first -- cat results.json",
    ],
    exits=[0, 2, 4, 7, 8, 126, 127, 255],
    pass_through=True,
    name="exec",
)
def exec_(
    session: Session,
    selector: Annotated[
        str,
        typer.Argument(
            metavar="SEL", help="Tasks, host:NAME, or job:ID for its processes.", autocompletion=complete.tasks
        ),
    ],
    words: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What to run.")],
    terminal: Annotated[
        bool, typer.Option("--tty", "-t", help="Give it a terminal, for shells and editors; for one target only.")
    ] = False,
    each: Annotated[bool, typer.Option("--each", help="Once for each task, not once for each host.")] = False,
    first: Annotated[bool, typer.Option("--first", help="Only for the first of them.")] = False,
    parallel: Annotated[
        int, typer.Option("--parallel", min=1, max=MOST_PARALLEL, metavar="N", help="At how many targets at once.")
    ] = 16,
) -> int:
    """Run a command on the hosts of tasks, in a task's environment; its exit code is the command's.

    It runs without a shell; `-- sh -c '...'` gives it one. With one target, stdin goes to it and its output comes out
    as it is. With several, it runs once on each host, in the environment of the first task there; each line begins
    with its target, and the exit code is that of the first target that failed. 126: it could not be run, 127: there is
    no such program, 255: the connection was lost. --each, --first, --tty and --parallel may also stand between SEL and
    `--`; other options of `exec` stand before SEL. All that the command has
    started ends with it, and with this program, however that ends.
    """
    from dtfctl.launcher.operator.host_access import one_per_host

    after, words = _own_options(words)
    terminal, each, first = terminal or after.terminal, each or after.each, first or after.first
    parallel = after.parallel or parallel
    if not words:
        raise UsageError("no command to run", "For example `dtfctl exec worker/0 -- hostname`.")
    cluster = session.open()
    found = cluster.targets(selector)
    if first:
        found = found[:1]
    elif not each:
        found = one_per_host(found)
    if terminal and len(found) > 1:
        raise UsageError(f"`-t` is for one target, {selector} means {len(found)}", "Add --first, or name one task.")
    if session.screen.is_data:
        return _collect(session, cluster, found, words, parallel)
    if len(found) == 1:
        return _interact(cluster, found[0], words, terminal)
    return _spread(session, cluster, found, words, parallel)


@dataclass(slots=True)
class _Own:
    """Options of `exec` that stand after SEL."""

    terminal: bool = False
    each: bool = False
    first: bool = False
    parallel: int = 0


def _own_options(words: Sequence[str]) -> tuple[_Own, list[str]]:
    """Split the options before `--` from the command after it."""
    if not words[0].startswith("-"):
        return _Own(), list(words)
    found, left = _Own(), list(words)
    while left and left[0] != "--":
        word = left.pop(0)
        name, _, value = word.partition("=")
        if word in ("--tty", "-t"):
            found.terminal = True
        elif word == "--each":
            found.each = True
        elif word == "--first":
            found.first = True
        elif name == "--parallel":
            value = value or (left.pop(0) if left else "")
            if not value.isdecimal() or not 1 <= int(value) <= MOST_PARALLEL:
                raise UsageError(f"`--parallel {value}` is not a number from 1 to {MOST_PARALLEL}")
            found.parallel = int(value)
        else:
            hint = "Options other than --each, --first, --tty and --parallel stand before SEL."
            raise UsageError(f"`{word}` is no command", hint)
    return found, left[1:]


def _interact(cluster: Cluster, target: Target, words: Sequence[str], terminal: bool) -> int:
    """Run it at one target, with this program's stdin, stdout and stderr as its own."""
    running = cluster.exec(target, words, _size() if terminal else None)
    raw = terminal and sys.stdin.isatty()
    streams = {"out": sys.stdout.buffer, "err": sys.stderr.buffer}
    try:
        with _raw_terminal(running) if raw else _nothing():
            guard.once(_feed, args=(running,), name="stdin").start()
            for name, data in running:
                stream = streams[name]
                stream.write(data)
                stream.flush()
    finally:
        running.close()
    assert running.exit_code is not None
    return running.exit_code


def _feed(running: Command) -> None:
    """Pass stdin on until it ends."""
    try:
        while data := os.read(0, INPUT_BYTES):
            running.write(data)
    except OSError:  # there is no stdin, or its terminal has gone
        pass
    running.end_input()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _raw_terminal(running: Command) -> Iterator[None]:
    """Let every key go to the command while it lasts, Ctrl-C too, and tell it of changes of the window's size."""

    def resized(_number: int, _frame: FrameType | None) -> None:
        found = _size()
        running.resize(found.rows, found.columns)

    before = termios.tcgetattr(0)
    handler = signal.signal(signal.SIGWINCH, resized)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed already is for the command, too
    resized(signal.SIGWINCH, None)  # it may have changed since it was sent
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)


def _size() -> Terminal:
    from dtfctl.launcher.operator.host_access import Terminal

    try:
        columns, rows = os.get_terminal_size(0)
    except OSError:
        columns, rows = 80, 24
    return Terminal(rows, columns, os.environ.get("TERM", "xterm"))


class _Lines:
    """What targets write, a whole line at a time, so that lines of two are never mixed."""

    def __init__(self, session: Session) -> None:
        self._writer = SourceWriter(session.screen, prefix=True)
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, str], bytes] = {}

    def write(self, source: str, stream: str, data: bytes, *, last: bool = False) -> None:
        with self._lock:
            begun = self._begun.pop((source, stream), b"") + data
            *whole, rest = begun.split(b"\n")
            if rest and last:
                whole.append(rest)
            elif rest:
                self._begun[source, stream] = rest
            out = sys.stdout if stream == "out" else sys.stderr
            for line in whole:
                text = line.decode(errors="replace").rstrip("\r")
                self._writer.write(LogLine(source, "out" if stream == "out" else "err", text, 0.0), out)


def _spread(session: Session, cluster: Cluster, found: Sequence[Target], words: Sequence[str], parallel: int) -> int:
    """Run it at several targets at once; the code of the first one that failed."""
    lines = _Lines(session)

    def run(running: Command) -> None:
        for stream, data in running:
            lines.write(running.target.name, stream, data)
        for stream in ("out", "err"):
            lines.write(running.target.name, stream, b"", last=True)

    outcomes = _run_all(cluster, found, words, parallel, run)
    failed = [(target, code, why) for target, (code, why) in zip(found, outcomes) if code]
    for target, code, why in failed:
        session.screen.error(f"{target.name}: {why or f'exit code {code}'}")
    if failed:
        session.screen.note(f"{len(failed)} of {len(found)} failed")
    return failed[0][1] if failed else 0


def _collect(session: Session, cluster: Cluster, found: Sequence[Target], words: Sequence[str], parallel: int) -> int:
    """Run it and give all of its output as one document."""
    written: dict[str, dict[str, bytearray]] = {t.name: {"out": bytearray(), "err": bytearray()} for t in found}

    def run(running: Command) -> None:
        for stream, data in running:
            written[running.target.name][stream] += data

    outcomes = _run_all(cluster, found, words, parallel, run)
    results = [
        {
            "target": target.name,
            "host": target.host,
            "exit_code": code,
            "error": why,
            "stdout": written[target.name]["out"].decode(errors="replace"),
            "stderr": written[target.name]["err"].decode(errors="replace"),
        }
        for target, (code, why) in zip(found, outcomes)
    ]
    session.screen.data("ExecResult", {"cluster": cluster.name, "command": list(words), "results": results})
    return next((code for code, _ in outcomes if code), 0)


def _run_all(
    cluster: Cluster, found: Sequence[Target], words: Sequence[str], parallel: int, run: Any
) -> list[tuple[int, str]]:
    """(exit code, why there is none) of every target, in their order."""
    alive: set[Command] = set()
    stopped = threading.Event()

    def one(target: Target) -> tuple[int, str]:
        if stopped.is_set():
            return 130, "not started"
        try:
            running = cluster.exec(target, words, None)
            alive.add(running)
            try:
                running.end_input()
                run(running)
            finally:
                running.close()
                alive.discard(running)
        except LauncherError as error:
            return error.exit_code, error.message
        assert running.exit_code is not None
        return running.exit_code, ""

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(parallel, len(found)), thread_name_prefix="exec") as pool:
        try:
            return list(pool.map(one, found))
        except BaseException:
            stopped.set()
            for running in list(alive):
                running.close()
            raise


@command(examples=["dtfctl attach worker/1"], exits=[0, 1, 2, 4, 8])
def attach(
    session: Session,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="One task, such as worker/1.", autocompletion=complete.task)
    ],
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, metavar="N", help="Begin with the last N lines.")] = 10,
) -> int:
    """Show what a task writes from now on, both streams as they are, until it ends.

    Its exit code is the task's. Ctrl-C lets go of the task, which goes on.
    """
    screen = session.screen
    cluster = session.open()
    try:
        for line in cluster.attach(task, tail=tail):
            stream = sys.stdout if line.stream == "out" else sys.stderr
            stream.write(line.text + ("\n" if line.newline else ""))
            stream.flush()
    except KeyboardInterrupt:
        screen.note(f"\n{task} goes on")
        return 0
    found = next(item for item in cluster.status().tasks if item.name == task)
    screen.note(f"{task} is {found.state}" + (f": {found.last_error}" if found.last_error else ""))
    return 0 if found.state in ("stopped", "done") else found.exit_code or 1


@command(
    examples=["dtfctl ssh node3", "dtfctl ssh worker/1", "dtfctl ssh node3 -- -L 8888:localhost:8888"],
    exits=[0, 2, 4, 7, 8, 255],
    pass_through=True,
)
def ssh(
    session: Session,
    host: Annotated[
        str,
        typer.Argument(
            metavar="HOST|TASK", help="A host of the cluster, or a task on it.", autocompletion=complete.host_or_task
        ),
    ],
    words: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="More for ssh, or a command.")] = None,
) -> int:
    """Open a shell on a host by the system's ssh, with the user, key, jump host and known hosts of the spec.

    This program becomes ssh; its exit code is ssh's.
    """
    cluster = session.open()
    found = cluster.ssh_command(host)
    sys.stdout.flush()
    rest = list(words or [])
    if rest[:1] == ["--"]:
        del rest[0]
    try:
        os.execvp(found[0], [*found, *rest])  # ssh takes options behind the host, too
    except FileNotFoundError:
        raise UsageError("there is no `ssh` on this machine", "Install OpenSSH's client.") from None


@command(
    examples=[
        "dtfctl get worker/0:results.csv .",
        "dtfctl get job:digits-1:out ./out",
        "dtfctl get worker:/var/log/app.log logs/",
    ],
    exits=[0, 1, 2, 4, 5, 7, 8, 255],
)
def get(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SEL:PATH", help="What, on the hosts of which tasks.")],
    destination: Annotated[
        Path, typer.Argument(metavar="[DEST]", help="A folder that is there (or ends in /), or the new name.")
    ] = Path("."),
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=64, metavar="N", help="From how many at once.")] = 8,
) -> int:
    """Copy a file or folder from the hosts of tasks to this machine.

    A relative path begins in the home folder there, with job:ID in the job's folder. Where SEL means several tasks,
    the copies go into DEST/TASK (`worker-0`), a folder for each. Every file is checked before it gets its name.
    """
    from dtfctl.launcher.operator.host_access import split_place

    place = split_place(source)
    if place is None:
        raise UsageError(f"`{source}` names no task", "For example `dtfctl get worker/0:results.csv .`.")
    selector, path = place
    cluster = session.open()
    found = cluster.targets(selector)
    into = str(destination)

    def copy(target: Target, bar: Bar) -> Received:
        folder = destination
        if len(found) > 1:
            folder = destination / target.name.replace("/", "-").replace(":", "-")
            folder.mkdir(parents=True, exist_ok=True)
        return cluster.get(target, path, folder, as_folder=into.endswith("/"), on_bytes=bar.moved)

    return _transfer(session, found, copy, parallel, "got")


@command(
    examples=[
        "dtfctl put data.csv worker/0:data/",
        "dtfctl put model host:node3:/tmp/model",
        "dtfctl put x.py worker:",
    ],
    exits=[0, 1, 2, 4, 5, 7, 8, 255],
)
def put(
    session: Session,
    source: Annotated[Path, typer.Argument(metavar="SRC", help="A file or folder on this machine.")],
    destination: Annotated[str, typer.Argument(metavar="SEL:PATH", help="A folder that is there, or the new name.")],
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=64, metavar="N", help="To how many at once.")] = 8,
) -> int:
    """Copy a file or folder from this machine to the hosts of tasks, once to each host.

    A relative path begins in the home folder there, with job:ID in the job's folder. Every file is checked before it
    gets its name; what is there under that name is replaced.
    """
    from dtfctl.launcher.operator.host_access import one_per_host, split_place

    place = split_place(destination)
    if place is None:
        raise UsageError(f"`{destination}` names no task", "For example `dtfctl put data.csv worker/0:data/`.")
    selector, path = place
    cluster = session.open()
    found = one_per_host(cluster.targets(selector))
    return _transfer(session, found, lambda to, bar: cluster.put(source, to, path, on_bytes=bar.moved), parallel, "put")


def _transfer(session: Session, found: Sequence[Target], copy: Any, parallel: int, done: str) -> int:
    """Copy for every target, show how far it is, and say what came of it."""
    screen = session.screen
    outcomes: list[Received | LauncherError] = []

    def one(target: Target) -> Received | LauncherError:
        try:
            received: Received = copy(target, bar)
        except LauncherError as error:
            return error
        return received

    from concurrent.futures import ThreadPoolExecutor

    with Bar(screen) as bar, ThreadPoolExecutor(min(parallel, len(found)), thread_name_prefix="copy") as pool:
        outcomes = list(pool.map(one, found))
    results: list[dict[str, Any]] = []
    for target, outcome in zip(found, outcomes):
        if isinstance(outcome, LauncherError):
            results.append({"target": target.name, "host": target.host, "error": outcome.message})
            continue
        results.append(
            {
                "target": target.name,
                "host": target.host,
                "path": str(outcome.path),
                "files": outcome.files,
                "bytes": outcome.bytes,
                "skipped": list(outcome.skipped),
                "error": "",
            }
        )
        if not screen.is_data:
            words = f"{plural(outcome.files, 'file')}, {size(outcome.bytes)}"
            screen.print(f"{target.name}: {done} {words}: {outcome.path}")
        for skipped in outcome.skipped:
            screen.note(f"{target.name}: left out {skipped}")
    if screen.is_data:
        screen.data("Transfer", {"done": done, "results": results})
    failures = [outcome for outcome in outcomes if isinstance(outcome, LauncherError)]
    if not failures:
        return 0
    if len(found) == 1:
        raise failures[0]
    for target, outcome in zip(found, outcomes):
        if isinstance(outcome, LauncherError):
            screen.error(f"{target.name}: {outcome.message}", outcome.hint)
    if len(failures) == len(found):
        return failures[0].exit_code
    raise PartlyDone(f"{len(failures)} of {len(found)} failed")
