"""Reports and orders that carry only what changed, for hosts with many tasks.

A report's numbers (CPU, memory, steps, uptime) change with every beat and nobody acts on them, so they travel every
`NUMBERS_S`; states and addresses at once. Orders change mostly by what they say about the tasks of other hosts.
"""

from __future__ import annotations

from typing import TypeVar

from dtfctl.figures import TaskFigures
from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import ClientReport, Report, TaskReport
from dtfctl.values import replace

NUMBERS_S = 2.0

Item = TypeVar("Item", TaskReport, ClientReport)


def what_counts(report: TaskReport) -> TaskReport:
    """Leave out of a report the numbers that nobody acts on."""
    times = replace(report.status, uptime_s=None, silence_s=None, retry_in_s=None)
    silent = replace(times, cpu_percent=None, rss_bytes=None, steps=0, spared_bytes=0, links=(), figures=TaskFigures())
    return replace(report, status=silent)


class ReportFilter:
    """The agent's side: one for each stream of reports."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskReport] = {}
        self._clients: dict[str, ClientReport] = {}
        self._numbers_at = float("-inf")

    def next(self, report: Report, now: float) -> Report:
        """Cut `report` to what the other side does not know yet; keep the whole of it when a process is new or gone."""
        tasks = {task.name: task for task in report.tasks}
        clients = {_client_key(client): client for client in report.clients}
        partial = tasks.keys() == self._tasks.keys() and clients.keys() == self._clients.keys()
        if not partial or now - self._numbers_at >= NUMBERS_S:
            self._numbers_at = now
            news = {name: task for name, task in tasks.items() if not partial or task != self._tasks[name]}
        else:
            news = {
                name: task
                for name, task in tasks.items()
                if task != self._tasks[name] and what_counts(task) != what_counts(self._tasks[name])
            }
        fresh = {key: client for key, client in clients.items() if not partial or client != self._clients[key]}
        self._tasks = self._tasks | news if partial else tasks
        self._clients = clients
        return replace(report, tasks=tuple(news.values()), clients=tuple(fresh.values()), partial=partial)


class ReportMerger:
    """The controller's side: whole reports again, and whether anything in them counts."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskReport] = {}
        self._clients: dict[str, ClientReport] = {}
        self._folders: frozenset[tuple[str, bool, bool]] = frozenset()

    def add(self, report: Report) -> tuple[Report, bool]:
        """Merge a report into what is known: (the whole report, whether a state, an address or the like changed)."""
        counts = not report.partial or bool(report.clients)
        folders = frozenset((folder.path, folder.files > 0, folder.in_step) for folder in report.folders)
        counts = counts or folders != self._folders
        self._folders = folders
        tasks, clients = (self._tasks, self._clients) if report.partial else ({}, {})
        for task in report.tasks:
            before = tasks.get(task.name)
            counts = counts or before is None or what_counts(before) != what_counts(task)
            tasks[task.name] = task
        for client in report.clients:
            clients[_client_key(client)] = client
        self._tasks, self._clients = tasks, clients
        return replace(report, tasks=tuple(tasks.values()), clients=tuple(clients.values()), partial=False), counts


def _client_key(client: ClientReport) -> str:
    return f"{client.job_id}:{client.name}"


def order_changes(sent: HostOrders | None, orders: HostOrders) -> HostOrders:
    """Make what is sent to a host that has `sent`: only the changed peers, where nothing else differs."""
    if sent is None or replace(orders, peers=sent.peers, revision=sent.revision) != sent:
        return orders
    known = {peer.name: peer for peer in sent.peers}
    if known.keys() != {peer.name for peer in orders.peers}:
        return orders
    news = tuple(peer for peer in orders.peers if peer is not known[peer.name] and peer != known[peer.name])
    return HostOrders(epoch=orders.epoch, revision=orders.revision, peers=news, base=sent.revision)


def complete(before: HostOrders, orders: HostOrders) -> HostOrders:
    """Make whole orders from those of `before` and what has changed.

    Raises:
        Conflict: the changes are not to `before`.
    """
    if not orders.base:
        return orders
    if (before.epoch, before.revision) != (orders.epoch, orders.base):
        raise Conflict(f"changes to orders {orders.base} came to a host that has orders {before.revision}")
    news = {peer.name: peer for peer in orders.peers}
    peers = tuple(news.get(peer.name, peer) for peer in before.peers)
    return replace(before, revision=orders.revision, peers=peers)


def remembered(before: HostOrders, orders: HostOrders) -> HostOrders:
    """Add to `orders` what `before` said of tasks of the cluster that the controller has not heard of yet.

    A new controller does not know where they are, and that is no news of them.
    """
    told = {peer.name for peer in orders.peers} | {task.name for task in orders.tasks}
    expected = frozenset(orders.expected)
    kept = tuple(peer for peer in before.peers if peer.name not in told and peer.name in expected)
    return replace(orders, peers=(*orders.peers, *kept)) if kept else orders
