"""Which tasks leave their host, and for where: pure functions of the stored state and what agents report.

A task leaves a host that is down, drained or no longer in the spec; a quarantined one when it has ended there; and
one on which it failed `restart.move_after` times. Where it still runs, it is stopped first (`move_to` is its place
meanwhile) and starts elsewhere once it has ended. That it has ended counts when its agent cannot start it again by
itself: a report from before the newest orders, or of a task that waits for its next start, says nothing of the number
that the agent is giving out at this moment. From a host that is down it goes at once: what may still run there is
fenced off by a higher incarnation, stops by its lease, and is killed when the host is back. Where there is no other
place, it stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dtfctl.launcher.controller.decisions.placement import Placer, rooms
from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.model import ALIVE, TaskStatus
from dtfctl.launcher.spec.model import ClusterSpec

LOST_STARTS = 1000
"""How many starts an agent that is cut off may make on its own before its lease ends; the moved task's number is
higher than any of theirs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What may be done with a host."""

    is_down: bool = False
    takes_new: bool = True
    keeps_running: bool = True
    """False: drained, or not in the spec any more."""
    why: str = ""
    """Why it is down or closed, for people."""


@dataclass(frozen=True, slots=True)
class Move:
    """A changed row, and the event to record."""

    row: TaskRow
    kind: str
    reason: str


def moves(
    spec: ClusterSpec,
    rows: Mapping[str, TaskRow],
    hosts: Mapping[str, Standing],
    seen: Mapping[str, TaskStatus],
    gpus: Mapping[str, int] | None = None,
    behind: Collection[str] = (),
    needed: Collection[str] = (),
) -> list[Move]:
    """Decide what moves now.

    Args:
        seen: each task as the agent of its row's host reports it.
        behind: hosts whose newest report is from before their newest orders.
        needed: tasks that jobs cannot do without; where hosts come and go they find a place on a full one.
    """
    leaving = [row for row in rows.values() if _wants_away(spec, row, hosts)]
    if not leaving:
        return []
    closed = {name for name, standing in hosts.items() if standing.is_down or not standing.takes_new}
    placer = Placer(spec, rooms(spec, closed, gpus), {row.name: row.move_to or row.host for row in rows.values()})
    found = []
    for row in leaving:
        is_needed = row.name in needed
        move = _move(spec, row, hosts, seen.get(row.name), row.host in behind, placer, closed, is_needed)
        if move is not None:
            found.append(move)
    return found


def _wants_away(spec: ClusterSpec, row: TaskRow, hosts: Mapping[str, Standing]) -> bool:
    if row.move_to:
        return True
    if row.is_final:
        return False
    host = hosts.get(row.host, Standing())
    if host.is_down or not host.keeps_running or not host.takes_new:
        return True
    return failures_there(row) >= spec.restart.move_after


def failures_there(row: TaskRow) -> int:
    """Count how often the task has failed on the host where it is."""
    return sum(failure.host == row.host for failure in row.failures)


def failed_elsewhere(row: TaskRow) -> list[str]:
    """List the other hosts on which the task has failed, once for each failure."""
    return [failure.host for failure in row.failures if failure.host != row.host]


def _move(
    spec: ClusterSpec,
    row: TaskRow,
    hosts: Mapping[str, Standing],
    seen: TaskStatus | None,
    is_behind: bool,
    placer: Placer,
    closed: set[str],
    is_needed: bool,
) -> Move | None:
    host = hosts.get(row.host, Standing())
    rests = seen is not None and seen.state not in ALIVE
    stays_ended = rests and not is_behind and seen is not None and seen.state != "pending"
    stays: Move | None = None
    if row.move_to and (row.move_to in closed or row.is_final):
        row = replace(row, move_to="")
        stays = Move(row, "task.stays", f"on {row.host}")
        placer.change(row.name, row.host)
        if row.is_final or not _wants_away(spec, row, hosts):
            return stays
    if row.move_to:
        return _arrive(row, row.move_to, host, seen, "") if host.is_down or stays_ended else None
    why, must = _reason(spec, row, host, rests)
    if not why:
        return stays
    counts = Counter(failure.host for failure in row.failures)
    bad = {name for name, count in counts.items() if count >= spec.restart.move_after} | {row.host}
    target = placer.find(row.name, bad, is_needed and must)
    if target is None and must:
        target = placer.find(row.name, {row.host}, is_needed)
    if target is None:
        return stays
    placer.change(row.name, target)
    if host.is_down or stays_ended:
        return _arrive(row, target, host, seen, why)
    return Move(replace(row, move_to=target), "task.moving", f"to {target}: {why}")


def _reason(spec: ClusterSpec, row: TaskRow, host: Standing, rests: bool) -> tuple[str, bool]:
    """Say why a task leaves (or nothing), and whether a host on which it failed before is better than none."""
    if host.is_down or not host.keeps_running:
        return f"{row.host} is {host.why}", True
    count = failures_there(row)
    if count >= spec.restart.move_after:
        return f"it failed {count} times on {row.host}", False
    if not host.takes_new and rests:
        return f"{row.host} is {host.why}", False
    return "", False


def _arrive(row: TaskRow, target: str, host: Standing, seen: TaskStatus | None, why: str) -> Move:
    floor = max(row.incarnation, 0 if seen is None else seen.incarnation) + (LOST_STARTS if host.is_down else 0)
    ran_on = tuple(name for name in (*row.ran_on, row.host) if name != target)
    moved = replace(row, host=target, move_to="", incarnation=floor, ran_on=tuple(dict.fromkeys(ran_on)))
    return Move(moved, "task.moved", f"from {row.host} to {target}" + (f": {why}" if why else ""))
