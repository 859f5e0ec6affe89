"""Which tasks there shall be and where, and telling every host: the spec, the user's stop and start, moves, orders."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dtfctl.launcher.controller.decisions import moves, reconcile
from dtfctl.launcher.controller.decisions.changes import check_possible, scaled, take_over, with_others
from dtfctl.launcher.controller.decisions.checkpoint_folders import CONTROLLER
from dtfctl.launcher.controller.decisions.link_faults import LinkFaults
from dtfctl.launcher.controller.decisions.link_rates import LinkRates
from dtfctl.launcher.controller.decisions.placement import place
from dtfctl.launcher.controller.decisions.step_times import StepTimes
from dtfctl.launcher.controller.hosts.host_manager import HostManager
from dtfctl.launcher.controller.hosts.keeper import Keeper
from dtfctl.launcher.controller.hosts.links import LinkRecord
from dtfctl.launcher.controller.state import job_lifecycle
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.controller.workloads import statuses
from dtfctl.launcher.errors import Conflict, SpecError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.model import TaskStatus
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.selectors import chosen_of, select
from dtfctl.launcher.spec.elastic import SPREAD_JOB
from dtfctl.launcher.spec.model import ClusterSpec


@dataclass(frozen=True, slots=True)
class Applied:
    """What taking over a spec comes to."""

    lines: tuple[str, ...]
    """What changes."""
    newest: int
    """The newest event before."""
    meant: tuple[str, ...] = ()
    """The tasks that `only` names."""


class TaskManager:
    """The cluster's tasks. Owned by the controller's loop."""

    def __init__(
        self, paths: ClusterPaths, desired_state: DesiredState, hosts: HostManager, record: LinkRecord, keeper: Keeper
    ) -> None:
        self._paths = paths
        self._desired_state = desired_state
        self._hosts = hosts
        self._revision = 0
        self._record = record
        self._keeper = keeper
        self.links = LinkFaults()
        self._rates = LinkRates()
        self.steps = StepTimes()

    # ------------------------------------------------------------------ commands (in a transaction)

    def apply(
        self, spec: ClusterSpec, task_command: tuple[str, ...], dry_run: bool, only: str = "", prune: bool = False
    ) -> Applied:
        """Take over a spec; with `only`, other tasks stay as they are, also (unless `prune`) those it does not have."""
        desired_state = self._desired_state
        if desired_state.going_down:
            raise Conflict(f"cluster {self._paths.name} is going down")
        newest = desired_state.store.last_event()
        if desired_state.spec is not None:
            check_possible(desired_state.spec, spec)
        standings = self._hosts.standings() if desired_state.spec is not None else {}
        closed = {name for name, standing in standings.items() if standing.is_down or not standing.takes_new}
        kept = {row.name: row.move_to or row.host for row in desired_state.tasks.values()}
        placed = place(spec, kept, closed, self._hosts.gpus(), self._record.known(self._hosts.all.keys()))
        chosen: frozenset[str] | None = None
        if only:
            chosen = frozenset(chosen_of(only, self.statuses(), placed))
            if desired_state.spec is not None and not prune:
                spec = with_others(desired_state.spec, spec, chosen)
                placed = place(spec, kept, closed, self._hosts.gpus(), self._record.known(self._hosts.all.keys()))
        change = take_over(
            desired_state.spec, spec, desired_state.tasks, placed, task_command != desired_state.task_command, chosen
        )
        meant = tuple(name for name in placed if chosen is not None and name in chosen)
        if not dry_run:
            desired_state.forget_notes()
            self._hosts.try_again()
        if dry_run or not change.lines:
            if not dry_run:
                self._hosts.refresh()
            return Applied(change.lines, newest, meant)
        desired_state.store.put_tasks(list(change.rows))
        desired_state.store.put("task_command", codec.encode(task_command))
        desired_state.store.set_spec(spec)
        for job in desired_state.jobs:
            rest = job_lifecycle.without(job, change.removed, time.time())
            if rest is not job:
                desired_state.store.put_job(rest)
        desired_state.store.add_event("cluster.applied", "cluster", "; ".join(change.lines))
        for row in change.rows:
            if row.held and row.name not in desired_state.tasks:
                desired_state.store.add_event("task.left-out", row.name, f"`up --only {only}` has left it out")
        desired_state.load()
        self._hosts.ensure_all()
        self._hosts.refresh()
        return Applied(change.lines, newest, meant)

    def scale(self, counts: Mapping[str, int], dry_run: bool) -> Applied:
        """Change how many tasks there are.

        Raises:
            Conflict: there is no room for them.
        """
        desired_state = self._desired_state
        if desired_state.spec is None:
            raise Conflict("the cluster has no spec yet", "wait for `dtfctl up` to finish")
        try:
            return self.apply(scaled(desired_state.spec, counts), desired_state.task_command, dry_run)
        except SpecError as error:
            raise Conflict(error.message, error.hint) from None

    def desire(self, selector: str, verb: str, grace_s: float) -> list[str]:
        """Have tasks do `restart`, `stop` or `start`; return their names."""
        desired_state = self._desired_state
        chosen = [task.name for task in select(selector, self.statuses())]
        for name in chosen:
            row = desired_state.tasks[name]
            if verb == "restart":
                request = row.restart_request + 1
                row = replace(row, run=True, restart_request=request, grace_s=grace_s, failures=(), owed="")
            else:
                row = replace(row, run=verb == "start", grace_s=grace_s)
            row = replace(row, held=False)
            desired_state.put_task(row)
            desired_state.store.add_event(f"task.{verb}-requested", name, "by the user")
        return chosen

    # ------------------------------------------------------------------ a turn

    def statuses(self) -> list[TaskStatus]:
        return statuses.task_statuses(list(self._desired_state.tasks.values()), self._hosts.all)

    def move(self) -> None:
        """Let tasks leave hosts on which they cannot stay. In a transaction."""
        desired_state = self._desired_state
        assert desired_state.spec is not None
        seen = {
            row.name: report.status
            for row in desired_state.tasks.values()
            if (host := self._hosts.all.get(row.host)) is not None and (report := host.tasks.get(row.name)) is not None
        }
        standings, behind = self._hosts.standings(), self._hosts.behind()
        for move in moves.moves(
            *(desired_state.spec, desired_state.tasks, standings, seen, self._hosts.gpus(), behind), self._needed()
        ):
            before: TaskRow = desired_state.tasks[move.row.name]
            desired_state.put_task(move.row)
            desired_state.store.add_event(move.kind, move.row.name, move.reason, before.incarnation)
        self._hosts.awaited = frozenset(row.host for row in desired_state.tasks.values() if row.move_to)
        self._hosts.ensure_all()

    def _needed(self) -> set[str]:
        """List the tasks that jobs cannot do without: all but workers, and the chiefs of jobs."""
        found = {name for name, row in self._desired_state.tasks.items() if row.job != SPREAD_JOB}
        found |= {
            job.processes[0].task
            for job in self._desired_state.jobs
            if job.is_active and job.processes and not job.does_without(job.processes[0])
        }
        return found

    def look_at_links(self) -> None:
        """Look which tasks cannot reach each other. In a transaction."""
        unreachable = {
            name: report.unreachable
            for host in self._hosts.all.values()
            if host.state == "up"
            for name, report in host.tasks.items()
            if report.unreachable
        }
        news = []
        if unreachable or self.links.is_watching:
            tasks = {task.name: task for task in self.statuses()}
            news += self.links.look(tasks, unreachable, time.monotonic())
        if self._rates.is_due(time.monotonic()):
            host_of = {name: row.host for name, row in self._desired_state.tasks.items()}
            ways = [
                (name, link)
                for host in self._hosts.all.values()
                if host.state == "up"
                for name, report in host.tasks.items()
                for link in report.status.links
                if link.samples
            ]
            news += self._rates.look(ways, host_of, time.monotonic())
        for item in news:
            self._desired_state.store.add_event(item.kind, item.subject, item.reason)

    def look_at_steps(self) -> None:
        """Look what tasks' steps spend their time on. In a transaction."""
        now = time.monotonic()
        if not self.steps.is_due(now):
            return
        figures = {
            name: report.status.figures
            for host in self._hosts.all.values()
            if host.state == "up"
            for name, report in host.tasks.items()
            if report.status.state == "running"
        }
        groups = [[placed.task for placed in job.placed] for job in self._desired_state.jobs if not job.is_final]
        for item in self.steps.look(figures, groups, now):
            self._desired_state.store.add_event(item.kind, item.subject, item.reason)

    def send_orders(self) -> None:
        """Hand every host's link what the host has not been told yet."""
        reports, desired = self._hosts.reports(), self._desired()
        kept = self._keeper.kept(desired.spec, reports)
        observed = reconcile.Observed(reports, self._hosts.lost(), time.time(), kept)
        if kept is not None:
            self._keeper.take(reconcile.folders_of(desired, observed).get(CONTROLLER, ()))
        for name, orders in reconcile.reconcile(desired, observed).items():
            host = self._hosts.ensure(name)
            assert host is not None
            if host.orders is not None and replace(orders, revision=host.orders.revision) == host.orders:
                continue
            self._revision += 1
            host.orders = replace(orders, revision=self._revision)
            host.link.set_orders(host.orders)

    def _desired(self) -> reconcile.Desired:
        desired_state = self._desired_state
        assert desired_state.spec is not None
        return reconcile.Desired(
            cluster=self._paths.name,
            spec=desired_state.spec,
            tasks=tuple(desired_state.tasks.values()),
            jobs=tuple(desired_state.jobs),
            task_command=desired_state.task_command,
            save=self._hosts.lending.save,
            links=self._record.known(self._hosts.all.keys()),
        )
