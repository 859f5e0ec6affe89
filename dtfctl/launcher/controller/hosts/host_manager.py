"""The hosts of a cluster: the link to each one's agent, what it reports, and whether it is up, suspect or down."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from dtfctl import guard
from dtfctl.health.monitor import Monitor
from dtfctl.launcher.controller.decisions import reconcile
from dtfctl.launcher.controller.decisions.moves import Standing
from dtfctl.launcher.controller.hosts.agent_link import AgentLink
from dtfctl.launcher.controller.hosts.certify import HostCertificates
from dtfctl.launcher.controller.hosts.host import Host
from dtfctl.launcher.controller.hosts.lending import Lending
from dtfctl.launcher.controller.hosts.set_aside import SetAside
from dtfctl.launcher.controller.hosts.shared_folder import SharedFolder
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.state.store import Failure
from dtfctl.launcher.errors import LauncherError, NoSpace, NoSuchTask
from dtfctl.launcher.identity.certificates import LIFETIME_S, TlsFiles
from dtfctl.launcher.messages.reports import Happening, LogChunk, LogPosition, Report
from dtfctl.launcher.model import GAVE_UP
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import AgentEndpoint, Grant, HostFailed, Provider
from dtfctl.launcher.spec.elastic import is_elastic_group
from dtfctl.launcher.system.mailbox import Mailbox
from dtfctl.launcher.transfer.blobs import Blobs

log = logging.getLogger(__name__)

MOST_STOPS_AT_ONCE = 64
DOWN_SAID_EVERY_S = 5.0
MOST_NAMED = 8
LENDER_ENDS_S = 40.0
"""The longest time for which `down` waits to hear whether hosts that are being taken back have been: Slurm leaves what
runs there half a minute to end by itself."""
LENDER_LOOK_S = 0.5


class HostManager:
    """All hosts. Its methods belong to the controller's loop, except where they say otherwise."""

    def __init__(
        self,
        paths: ClusterPaths,
        desired_state: DesiredState,
        epoch: int,
        provider: Provider,
        mailbox: Mailbox,
        on_no_space: Callable[[NoSpace], None],
    ) -> None:
        self._paths = paths
        self._desired_state = desired_state
        self._epoch = epoch
        self._provider = provider
        self._tls = TlsFiles.of(paths.certificates, "controller")
        self._mailbox = mailbox
        self._on_no_space = on_no_space
        self._blobs = Blobs(paths.blobs)
        self.book = SetAside(desired_state)
        self.all: dict[str, Host] = {}
        self.on_superseded: Callable[[str], None] = lambda _: None
        """Another controller of the cluster has spoken to a host."""
        self.awaited: frozenset[str] = frozenset()
        """Hosts that tasks are about to leave."""
        self.sharing = SharedFolder(desired_state, mailbox, self.all)
        self.lending = Lending(desired_state, provider)
        provider.on_stage = lambda *told: mailbox.post(lambda: self._on_stage(*told))
        provider.on_grant = lambda grant: mailbox.post(lambda: self._on_grant(grant))

    def ensure(self, name: str) -> Host | None:
        """Find the host, and watch it from now on; None before there is a spec."""
        if name in self.all:
            return self.all[name]
        if self._desired_state.spec is None:
            return None
        boot, _, number = (self._desired_state.store.get(f"seen:{name}") or " 0").partition(" ")
        link = AgentLink(
            name,
            self._paths.name,
            self._epoch,
            self._provider,
            self._tls,
            (boot, int(number)),
            read_script=self._read_script,
            blobs=self._blobs,
            on_report=lambda host, report, counts: self._mailbox.post(lambda: self._on_report(host, report, counts)),
            on_lost=lambda host, problem: self._mailbox.post(lambda: self._on_lost(host, problem)),
            on_endpoint=lambda end: self._mailbox.post(lambda: self._on_endpoint(end)),
            certificates=HostCertificates(self._paths.certificates, self._paths.name, name, self.lifetime_s),
            on_renewed=lambda host, names: self._mailbox.post(lambda: self._on_renewed(host, names)),
        )
        link.on_superseded = lambda text: self._mailbox.post(lambda: self.on_superseded(text))
        if self._desired_state.going_down:
            link.start_none()
        host = self.all[name] = Host(link, Monitor(reconcile.health_limits(self._desired_state.spec)), time.monotonic())
        link.start()
        return host

    def _read_script(self, job_id: str) -> bytes:
        """Read the script of a job. Any thread."""
        script = Path(self._desired_state.find_job(job_id).script)
        return script.read_bytes()

    def links(self) -> list[AgentLink]:
        """List the links to every host that stays."""
        return [host.link for host in self.all.values() if not host.is_leaving]

    def lifetime_s(self) -> float:
        """Tell how many seconds new certificates last. Any thread."""
        spec = self._desired_state.spec
        return LIFETIME_S if spec is None else spec.security.lifetime

    def _on_renewed(self, name: str, certificates: list[str]) -> None:
        with self._desired_state.store.transaction():
            self._desired_state.store.add_event("host.certified", f"host:{name}", f"new: {', '.join(certificates)}")

    def start_none(self) -> None:
        """Leave agents that have died so from now on, unless one is needed to stop what it left."""
        for host in self.all.values():
            host.link.start_none()

    def ensure_all(self) -> None:
        """Watch every host of the spec, spares included, and those that still have tasks; let go of the others."""
        desired_state = self._desired_state
        if desired_state.spec is not None:
            self._provider.configure(desired_state.spec)
        wanted = {host.name for host in desired_state.spec.hosts} if desired_state.spec else set()
        wanted |= {name for row in desired_state.tasks.values() for name in (row.host, row.move_to) if name}
        for name in sorted(wanted):
            self.ensure(name)
        for name in sorted(self.all.keys() - wanted):
            if not self.all[name].is_leaving:
                self._let_go(name)

    def _let_go(self, name: str) -> None:
        host = self.all[name]
        host.is_leaving = True
        self._desired_state.store.add_event("host.removed", f"host:{name}", "not in the spec any more")
        self._desired_state.store.delete_host(name)
        self._desired_state.hosts.pop(name, None)

        def work() -> None:
            problem = self._stop(name, host, 10.0)
            if problem:
                log.warning("%s", problem)
            self._mailbox.post(lambda: self._gone(name))

        guard.once(work, name=f"remove-{name}").start()

    def _gone(self, name: str) -> None:
        self.all.pop(name, None)
        self.ensure_all()  # it may have come back into the spec meanwhile

    # ------------------------------------------------------------------ what links tell

    def _on_endpoint(self, endpoint: AgentEndpoint) -> None:
        host = self.all.get(endpoint.host)
        if host is not None:
            host.endpoint = endpoint
            host.last_error = ""
            host.failure = None
            host.stage = ""

    def _on_report(self, name: str, report: Report, counts: bool) -> None:
        host, desired_state = self.all.get(name), self._desired_state
        if host is None or host.is_leaving:
            return
        host.monitor.beat(time.monotonic())
        was_behind = host.is_behind(self._epoch)
        host.report = report
        if was_behind and not host.is_behind(self._epoch) and name in self.awaited:
            desired_state.changed = True
        host.last_error = report.problem
        is_back = host.state != "up"
        if counts or is_back:
            host.tasks = {task.name: task for task in report.tasks}
            desired_state.changed = True
        else:
            host.tasks.update((task.name, task) for task in report.tasks)
        if not (report.happenings or counts or is_back):
            return
        try:
            with desired_state.store.transaction():
                if is_back:
                    host.state = "up"
                    host.link.renews = True
                    desired_state.store.add_event("host.up", f"host:{name}", f"agent pid {report.pid}")
                for item in report.happenings:
                    self._happened(name, item)
                if report.happenings:
                    desired_state.store.put(f"seen:{name}", f"{report.boot} {report.happenings[-1].number}")
                self._note_tasks(name, report)
        except NoSpace as error:
            self._on_no_space(error)

    def _happened(self, name: str, item: Happening) -> None:
        desired_state = self._desired_state
        desired_state.store.add_event(item.kind, item.subject, item.reason, item.incarnation, item.time)
        row, now = desired_state.tasks.get(item.subject), time.monotonic()
        if item.failure and row is not None and desired_state.spec is not None:
            within = desired_state.spec.restart.within
            recent = tuple(failure for failure in row.failures if now - failure.time < within)
            desired_state.put_task(replace(row, failures=(*recent, Failure(name, now))))
            self.book.task_failed(name, self.all, now)
        elif item.kind == "host.bad":
            self.book.quarantine(name, item.reason, now)

    def _note_tasks(self, name: str, report: Report) -> None:
        """Note the numbers that a later start must exceed, and which tasks their agent has given up."""
        desired_state = self._desired_state
        for task in report.tasks:
            row = desired_state.tasks.get(task.name)
            if row is None:
                continue
            new, status = row, task.status
            if status.incarnation > row.incarnation:
                new = replace(new, incarnation=status.incarnation)
            if status.incarnation and status.restarts >= row.starts:
                new = replace(new, starts=status.restarts + 1)
            gave_up = row.host == name and status.state in GAVE_UP
            if gave_up and task.restart_handled >= row.restart_request > row.gave_up:
                new = replace(new, gave_up=row.restart_request)
            if new is not row:
                desired_state.put_task(new)

    def _on_stage(self, name: str, stage: str, detail: str) -> None:
        """Work on a host has come so far; told only while nothing runs there yet."""
        host = self.all.get(name)
        if host is None or self._desired_state.going_down or host.is_leaving:
            return
        if stage not in ("layer", "note"):
            host.stage = f"{stage} {detail}".strip()
        if "%" in detail:
            return  # how far an upload is, is for who watches, not for the history
        with self._desired_state.store.transaction():
            self._desired_state.store.add_event(f"host.{stage}", f"host:{name}", detail)

    def _on_grant(self, grant: Grant) -> None:
        if self._desired_state.going_down:
            return
        try:
            with self._desired_state.store.transaction():
                if anew := self.lending.changed(grant, self.all.keys()):
                    self._begin_anew(anew)
        except NoSpace as error:
            self._on_no_space(error)

    def _begin_anew(self, names: Collection[str]) -> None:
        """Forget what ran on hosts that were lent: all of it has ended, and other machines come under their names."""
        assert self._desired_state.spec is not None
        limits = reconcile.health_limits(self._desired_state.spec)
        for host in [host for name, host in self.all.items() if name in names]:
            host.report, host.tasks, host.orders = None, {}, None
            host.state, host.last_error, host.failure, host.stage = "pending", "", None, ""
            host.monitor, host.since = Monitor(limits), time.monotonic()
            host.link.try_again()
        for row in self._desired_state.tasks.values():
            # Some were told to end, and did so well: they are to run nevertheless.
            if row.run and not row.held and row.host in names:
                self._desired_state.put_task(replace(row, restart_request=row.restart_request + 1, failures=()))
        self._desired_state.changed = True

    def _on_lost(self, name: str, problem: LauncherError) -> None:
        host = self.all.get(name)
        if self._desired_state.going_down or host is None or host.is_leaving:
            return
        is_queued = isinstance(problem, HostFailed) and problem.cause == "queued"
        if is_queued and host.state in ("pending", "down") and self._goes_on_without(name):
            host.stage, host.last_error = f"queued {problem.message}", ""
            if host.state == "pending":  # its tasks are not waited for, and what jobs cannot do without goes elsewhere
                self._lost(name, host, "host.away", problem.message)
            assert isinstance(problem, HostFailed)
            host.failure = problem
            return
        if is_queued and host.state in ("pending", "down"):
            host.stage, host.last_error, host.failure = f"queued {problem.message}", "", None
            host.state = "pending" if host.report is None else host.state
            return
        why = host.last_error = problem.message
        host.stage = ""
        host.failure = problem if isinstance(problem, HostFailed) else None
        with self._desired_state.store.transaction():
            if host.failure is not None and host.state == "pending":
                where = f" ({host.failure.where})" if host.failure.where else ""
                self._lost(name, host, "host.failed", why + where)
            elif host.state == "up":
                host.state = "suspect"
                self._desired_state.store.add_event("host.suspect", f"host:{name}", why)

    def _goes_on_without(self, name: str) -> bool:
        """Tell whether others of a host's group are lent already, and it is one that may come later."""
        spec, grant = self._desired_state.spec, self.lending.grant
        if spec is None or grant is None or grant.state != "granted":
            return False
        group = next((host.group for host in spec.hosts if host.name == name), "")
        return group in spec.host_groups and is_elastic_group(spec.host_groups[group])

    # ------------------------------------------------------------------ clocks

    def judge(self) -> None:
        """Look at the clocks: which hosts are silent, whose quarantine is over."""
        now, desired_state = time.monotonic(), self._desired_state
        assert desired_state.spec is not None
        for name, host in self.all.items():
            verdict = host.monitor.tick(now)
            silence = host.monitor.silence_s(now)
            if verdict == "down" and host.state in ("up", "suspect"):
                self._lost(name, host, "host.down", f"its agent is silent for {silence:.1f} s")
            elif verdict == "suspect" and host.state == "up":
                host.state = "suspect"
                desired_state.store.add_event("host.suspect", f"host:{name}", "its agent is silent")
            elif verdict == "healthy" and host.state == "suspect" and not host.last_error:
                host.state = "up"
                desired_state.store.add_event("host.up", f"host:{name}", "its agent reports again")
            elif (
                host.state == "pending" and host.last_error and now - host.since > desired_state.spec.health.down_after
            ):
                self._lost(name, host, "host.down", host.last_error)
            if host.state != "up" and not host.is_leaving and host.link.hangs(now):
                host.link.replace_agent()
        for name in self.book.to_probe(self.all, now):
            self._probe(name)
        self.sharing.look(now)
        self.lending.look(time.time())

    def _lost(self, name: str, host: Host, kind: str, why: str) -> None:
        host.state = "down"
        host.link.renews = False
        self._desired_state.changed = True
        self._desired_state.store.add_event(kind, f"host:{name}", why)

    def _probe(self, name: str) -> None:
        host = self.all[name]
        host.is_probed = True

        def work() -> None:
            problem = host.link.probe()
            self._mailbox.post(lambda: self._probed(name, problem))

        guard.once(work, name=f"probe-{name}").start()

    def _probed(self, name: str, problem: str) -> None:
        host = self.all.get(name)
        if host is None:
            return
        host.is_probed = False
        try:
            with self._desired_state.store.transaction():
                self.book.probed(name, problem, time.monotonic())
        except NoSpace as error:
            self._on_no_space(error)

    # ------------------------------------------------------------------ what they report

    def standings(self) -> dict[str, Standing]:
        """Judge what may be done with each host."""
        assert self._desired_state.spec is not None
        wanted = {host.name for host in self._desired_state.spec.hosts}
        return {name: self.book.standing(name, host, name in wanted) for name, host in self.all.items()}

    def reports(self) -> dict[str, Report]:
        return {name: host.report for name, host in self.all.items() if host.report is not None}

    def behind(self) -> frozenset[str]:
        """Find hosts that have not said what they do about their newest orders; each is looked at again once it has."""
        return frozenset(name for name, host in self.all.items() if host.is_behind(self._epoch))

    def lost(self) -> frozenset[str]:
        return frozenset(name for name, host in self.all.items() if host.state == "down")

    def up(self) -> frozenset[str]:
        return frozenset(name for name, host in self.all.items() if host.state == "up")

    def gpus(self) -> dict[str, int]:
        """Count the GPUs of each host, as reported."""
        return {name: host.report.gpus for name, host in self.all.items() if host.report is not None}

    def read_logs(
        self, host: str, positions: list[LogPosition], *, wait_s: float, within_s: float, max_bytes: int, tail: int
    ) -> list[LogChunk]:
        """Read logs of one host; any thread. Its agent has `within_s`, besides `wait_s`, to answer."""
        known = self.all.get(host)
        if known is None:
            raise NoSuchTask(f"there is no host {host}")
        return known.link.read_logs(positions, wait_s=wait_s, within_s=within_s, max_bytes=max_bytes, tail=tail)

    # ------------------------------------------------------------------ commands

    def try_again(self) -> None:
        """Try hosts again at once that could not be used."""
        self.sharing.again()
        if self.lending.again():
            self._begin_anew(self.all.keys())
        for host in self.all.values():
            if host.failure is not None:
                host.failure = None
                if host.report is None:
                    host.state, host.last_error = "pending", ""
                host.link.try_again()

    def refresh(self) -> None:
        """Look at every host whose agent runs: the spec, or the files that it names, may have changed."""
        spec = self._desired_state.spec
        if spec is None or not (spec.sync or spec.setup):
            return
        for name, host in self.all.items():
            if host.state in ("up", "suspect") and not host.is_leaving:
                host.refreshing += 1
                guard.once(self._refresh, args=(name,), name=f"refresh-{name}").start()

    def _refresh(self, name: str) -> None:
        problem: HostFailed | None = None
        try:
            self._provider.refresh(name)
        except HostFailed as error:
            problem = error
        except LauncherError as error:
            problem = HostFailed("sync", error.message, error.hint)
        self._mailbox.post(lambda: self._refreshed(name, problem))

    def _refreshed(self, name: str, problem: HostFailed | None) -> None:
        host = self.all.get(name)
        if host is None:
            return
        host.refreshing -= 1
        host.stage, host.outdated = "", problem
        if problem is not None:
            with self._desired_state.store.transaction():
                self._desired_state.store.add_event("host.outdated", f"host:{name}", problem.message)

    def desire(self, names: Sequence[str], verb: str, reason: str) -> list[str]:
        """Have hosts do `drain`, `undrain` or `release`; return those that were changed. In a transaction."""
        return self.book.desire(names, verb, reason, self.all, time.monotonic())

    # ------------------------------------------------------------------ down

    def give_back(self) -> bool:
        """Give lent hosts back; whether that has ended all that was there. Any thread. Raises LauncherError."""
        return self._provider.give_back()

    def stop_all(self, grace_s: float, delete_logs: bool = False) -> list[str]:
        """Stop every host's processes and agent; what did not work. Any thread, once nothing is started any more."""
        hosts = dict(self.all)
        if not hosts:
            return []
        with ThreadPoolExecutor(min(MOST_STOPS_AT_ONCE, len(hosts))) as pool:
            stops = {name: pool.submit(self._stop, name, host, grace_s, delete_logs) for name, host in hosts.items()}
            wait_for(stops, DOWN_SAID_EVERY_S)
        return [problem for stop in stops.values() if (problem := stop.result())]

    def _stop(self, name: str, host: Host, grace_s: float, delete_logs: bool = False) -> str:
        if host.state == "down" and self.lending.ends_all:
            host.link.close()
            return ""
        host.stage = "stopping"
        try:
            return self._stop_and_clean(name, host, grace_s, delete_logs)
        finally:
            host.stage = ""

    def _stop_and_clean(self, name: str, host: Host, grace_s: float, delete_logs: bool) -> str:
        deadline = time.monotonic() + LENDER_ENDS_S
        while True:
            try:
                try:
                    host.link.shutdown_agent(grace_s, delete_logs)
                finally:
                    host.link.close()
                if self._provider.may_run(name):
                    self._provider.clean(name)
                return ""
            except LauncherError as error:
                if not self._provider.may_run(name):
                    return ""  # it was lent, and all that ran there has ended with that
                ends = isinstance(error, HostFailed) and error.cause == "queued" and not self.lending.ends_all
                if not ends or time.monotonic() > deadline:
                    return f"host {name}: {error.message}"
            time.sleep(LENDER_LOOK_S)


def wait_for(stops: Mapping[str, Future[str]], every_s: float) -> None:
    """Wait until every host has been stopped, or has not let itself be, and log which have not meanwhile."""
    while wait(stops.values(), timeout=every_s).not_done:
        late = sorted(name for name, stop in stops.items() if not stop.done())
        if late:
            named = ", ".join(late[:MOST_NAMED]) + (", ..." if len(late) > MOST_NAMED else "")
            log.info("down waits for %d of %d hosts: %s", len(late), len(stops), named)
