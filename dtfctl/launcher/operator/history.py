"""What was and is written: logs of processes and events of the cluster, read on across restarts of the controller."""

from __future__ import annotations

import codecs
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dtfctl.launcher.errors import Conflict, NotFound, UsageError
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import EventsRequest, StatusRequest
from dtfctl.launcher.model import Event, LogLine, TaskStatus
from dtfctl.launcher.operator import controller_client, host_access, output
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.output import Batch
from dtfctl.launcher.operator.remote_controller import RemoteController
from dtfctl.launcher.selectors import select

POLL_S = 5.0
"""How long one long poll waits; the next follows at once."""
EVENT_BATCH = 1000
ATTACH_S = 0.5
LONGEST_LINE = 2**20
"""The characters of a line that does not end that are kept together."""
DAEMONS = ("controller", "agent:")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines. A job is `job:ID`, one of its processes `job:ID:worker/0`."""

    selector: str = "all"
    follow: bool = False
    tail: int | None = None
    """Only the last so many lines of each process."""
    since: float | None = None
    """Seconds since the epoch."""
    streams: tuple[str, ...] = ("out", "err")
    grep: str | None = None
    """A regular expression (Python's) that is found in the line."""
    previous: bool = False
    """Whether of each process only what its last but one start wrote is wanted."""


def logs(connection: Connection, query: LogQuery) -> Iterator[LogLine]:
    """See `Cluster.logs`."""
    pattern = _pattern(query.grep)
    if query.previous and query.follow:
        raise UsageError("--previous and --follow do not go together", "An earlier run writes nothing any more.")
    # Filtered lines cannot be counted where they are kept.
    filtered = pattern is not None or query.previous or query.since is not None or query.streams != ("out", "err")
    stream = _batches(connection, query, 0 if filtered else query.tail or 0)
    windows = _previous_runs(connection, query.selector) if query.previous else None
    if windows is not None and not windows:
        raise NotFound(f"{query.selector} was started only once: there is no earlier run", "leave --previous out")
    return _chosen(stream, query, pattern, windows)


def attach(connection: Connection, name: str, tail: int) -> Iterator[LogLine]:
    """See `Cluster.attach`."""

    def now() -> TaskStatus:
        tasks = connection.call(controller_calls.STATUS, StatusRequest()).status.tasks
        found = select(name, tasks)
        if len(found) != 1:
            raise UsageError(f"{name!r} means {len(found)} tasks", "Name one, such as worker/1.")
        return found[0]

    first = now()
    if first.state not in ("starting", "running", "stopping"):
        raise Conflict(f"{first.name} is {first.state}", f"look with: dtfctl why {first.name}")
    return _until_it_ends(output.LogReader(connection, first.name, tail or 1), now, first.incarnation, tail)


def _until_it_ends(
    reader: output.LogReader, now: Callable[[], TaskStatus], incarnation: int, tail: int
) -> Iterator[LogLine]:
    early: list[LogLine] | None = []
    while True:
        # Asked before reading, so that what it wrote last is read as well.
        found = now()
        over = found.incarnation != incarnation or found.state not in ("starting", "running", "stopping")
        while True:
            batch = reader.read(0.0 if over else ATTACH_S)
            if early is None:
                yield from batch.lines
            else:
                early += batch.lines
            if batch.caught_up:
                break
        # Of all hosts that it was on.
        yield from _last(early or [], tail)
        early = None
        if over:
            return


def _tail(host: str, query: LogQuery) -> list[str]:
    """Make the command that writes the log of the agent that runs it."""
    follow = ["-F"] if query.follow else []
    return ["sh", "-c", 'exec tail -n +1 "$@" "$DTFCTL_LOGS/agent-$0.log"', host, *follow]


def _remote_agent(command: host_access.Command) -> Iterator[Batch]:
    """Yield an agent's log on another host, as the agent itself reads it. Raises ConnectionLost where it goes away."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    begun = ""
    try:
        for stream, data in command:
            if stream == "out":
                *whole, begun = (begun + decoder.decode(data)).split("\n")
                lines = [output.daemon_line(command.target.name, text) for text in whole]
                yield Batch(lines, True, False, False, ())
        rest = [output.daemon_line(command.target.name, begun)] if begun else []
        yield Batch(rest, True, True, True, ())
    finally:
        command.close()


def _batches(connection: Connection, query: LogQuery, tail: int) -> Iterator[Batch]:
    host = query.selector.removeprefix("agent:")
    if host != query.selector and not (connection.paths.logs / f"agent-{host}.log").exists():
        status = connection.call(controller_calls.STATUS, StatusRequest()).status
        if any(item.name == host for item in status.hosts):
            return _remote_agent(
                host_access.Command(connection, host_access.Target(query.selector, host, ""), _tail(host, query))
            )
    if query.selector == "controller" and isinstance(connection.controller, RemoteController):
        return output.far_lines(connection.controller.log(), query.selector, query.follow)
    if query.selector.startswith(DAEMONS):
        return output.daemon_lines(
            connection.paths.logs,
            query.selector,
            follow=query.follow,
            gone=lambda: controller_client.read_created(connection.paths) is None,
        )
    selector, process = query.selector, ""
    if selector.startswith("job:"):
        _, job_id, *rest = selector.split(":")
        selector, process = f"job:{job_id}", ":".join([job_id, *rest]) if rest else ""
    # Asked now, not at the first item, so that a wrong selector is an error of this call.
    reader = output.LogReader(connection, selector, tail)
    found = output.batches(reader, reader.read(0.0), follow=query.follow, wait_s=POLL_S)
    if not process:
        return found
    return (replace(batch, lines=[line for line in batch.lines if line.source == process]) for batch in found)


def _chosen(
    stream: Iterable[Batch],
    query: LogQuery,
    pattern: re.Pattern[str] | None,
    windows: Mapping[str, tuple[float, float]] | None,
) -> Iterator[LogLine]:
    """Yield the lines of `stream` that `query` asks for; cut what was there already to its tail first."""
    whole = WholeLines()
    early: list[LogLine] | None = [] if query.tail is not None else None

    def wanted(line: LogLine) -> bool:
        begin, end = (0.0, float("inf")) if windows is None else windows.get(line.source, (1.0, 0.0))
        return (
            line.stream in query.streams
            and (query.since is None or line.time >= query.since)
            and begin <= line.time < end
            and (pattern is None or pattern.search(line.text) is not None)
        )

    try:
        for batch in stream:
            lines = batch.lines if pattern is None else whole.join(batch.lines, last=batch.final)
            chosen = [line for line in lines if wanted(line)]
            if early is None:
                yield from chosen
                continue
            early = _last(early + chosen, query.tail or 0)
            if batch.caught_up or batch.final:
                yield from early
                early = None
    except BaseException:
        # What could be read is given before the error that says what could not.
        yield from early or []
        raise


def _last(lines: list[LogLine], count: int) -> list[LogLine]:
    """Cut to the last `count` whole lines of each source, in their order."""
    kept: dict[str, deque[int]] = defaultdict(deque)
    begins: dict[str, int] = defaultdict(int)
    for at in range(len(lines) - 1, -1, -1):
        source = lines[at].source
        begins[source] += lines[at].newline or not kept[source]
        if begins[source] <= count:
            kept[source].append(at)
    return [lines[at] for at in sorted(at for places in kept.values() for at in places)]


class WholeLines:
    """Puts lines together that were written in parts, so that a pattern sees all of a line."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], list[LogLine]] = defaultdict(list)
        self._lengths: dict[tuple[str, str], int] = defaultdict(int)

    def join(self, lines: Iterable[LogLine], *, last: bool = False) -> list[LogLine]:
        """Join what makes lines that are complete now; with `last`, also those that never will be."""
        done = []
        for line in lines:
            parts = self._parts[line.source, line.stream]
            parts.append(line)
            length = self._lengths[line.source, line.stream] + len(line.text)
            if line.newline or length > LONGEST_LINE:
                done.append(_joined(parts))
                parts.clear()
                length = 0
            self._lengths[line.source, line.stream] = length
        if last:
            done += [_joined(parts) for parts in self._parts.values() if parts]
        return done


def _joined(parts: list[LogLine]) -> LogLine:
    return replace(parts[0], text="".join(part.text for part in parts), newline=True)


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    if grep is None:
        return None
    try:
        return re.compile(grep)
    except re.error as error:
        raise UsageError(
            f"`--grep {grep}` is not a regular expression: {error}", "Escape special characters: \\["
        ) from None


def _previous_runs(connection: Connection, selector: str) -> dict[str, tuple[float, float]]:
    """Find when each process that was started more than once began its last but one run, and when its last."""
    starts: dict[str, dict[int, float]] = defaultdict(dict)
    for event in events(connection, follow=False, since=None):
        if event.kind in ("task.starting", "process.starting"):
            starts[event.subject][event.incarnation] = event.time
    if selector.startswith("job:"):
        chosen = {name for name in starts if name == selector or name.startswith(f"{selector}:")}
    else:
        tasks = connection.call(controller_calls.STATUS, StatusRequest()).status.tasks
        chosen = {task.name for task in select(selector, tasks)}
    found = {}
    for name in chosen:
        if len(starts[name]) > 1:
            before, newest = sorted(starts[name])[-2:]
            found[output.source_of(name)] = (starts[name][before], starts[name][newest])
    return found


def events(connection: Connection, *, follow: bool, since: float | None) -> Iterator[Event]:
    """Yield what happened, oldest first; with `follow` also what will."""
    after = 0
    while True:
        found, after = read_events(connection, after, since or 0.0, POLL_S if follow else 0.0)
        # What an agent tells late, after it was away, happened when it says.
        yield from sorted(found, key=lambda event: event.time)
        if not follow:
            return


def events_after(connection: Connection, after: int) -> list[Event]:
    """Read every event with a higher number."""
    return read_events(connection, after, 0.0, 0.0)[0]


def read_events(connection: Connection, after: int, since: float, wait_s: float) -> tuple[list[Event], int]:
    """Read (events, the number to go on from); wait up to `wait_s` for the first."""
    found: list[Event] = []
    while True:
        request = EventsRequest(after=after, since=since, wait_s=0.0 if found else wait_s)
        reply = connection.call(controller_calls.EVENTS, request)
        found += reply.events
        after = max(after, reply.newest)
        if len(reply.events) < EVENT_BATCH:
            return found, after
