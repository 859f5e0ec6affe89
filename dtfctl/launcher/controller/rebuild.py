"""A controller whose database is lost or damaged makes it anew from what the hosts keep.

Every agent has a copy of what is wanted (`hosts/state_copies.py`), the orders it was given and the records of its
processes. The newest copy counts; where tasks run and with which incarnation, the hosts themselves know better. The
damaged file is kept among the logs. Nothing is begun anew before at least one host was asked: a cluster of which
nothing is known may run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from dtfctl import guard
from dtfctl.launcher.agent.units import state_file
from dtfctl.launcher.controller.hosts import state_copies
from dtfctl.launcher.controller.state import ledger
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.controller.state.store import Store, TaskRow
from dtfctl.launcher.errors import ClusterFailed, LauncherError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import agent_calls, codec, state_copy
from dtfctl.launcher.messages.agent import RecallRequest
from dtfctl.launcher.model import ALIVE
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Provider
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.spec.model import ClusterSpec, ControllerPlace
from dtfctl.launcher.system.files import private_folder, write_whole

log = logging.getLogger(__name__)

RECALL_S = 10.0
PATIENCE_S = 10.0
"""The seconds for hosts that have to be logged in to, once another one has answered."""
LONGEST_S = 40.0
AT_ONCE = 64
SUFFIXES = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Recalled:
    """What one host keeps."""

    host: str
    copy: state_copy.Copy
    state: state_file.Saved
    boot: str = ""
    happening: int = 0

    @classmethod
    def of(cls, host: str, copy: bytes, saved: bytes, boot: str = "", happening: int = 0) -> Recalled:
        """Read what a host keeps; what cannot be read counts as not there."""
        try:
            kept = state_copy.parse(copy)
        except ValueError as error:
            log.warning("the copy of %s is damaged: %s", host, error)
            kept = state_copy.Copy()
        try:
            found = codec.decode(state_file.Saved, saved) if saved else state_file.Saved("")
        except ValueError as error:
            log.warning("the state of %s is damaged: %s", host, error)
            found = state_file.Saved("")
        return cls(host, kept, found, boot, happening)


@dataclass(frozen=True, slots=True)
class _Handed:
    recalled: tuple[Recalled, ...] = ()
    unheard: tuple[str, ...] = ()
    why: str = ""
    place: ControllerPlace | None = None


# ------------------------------------------------------------------ is there anything to do?


def damage(paths: ClusterPaths) -> str:
    """Say what is wrong with the database; empty when nothing is, or when the cluster has not begun yet."""
    if not paths.database.exists():
        return f"{paths.database.name} was gone" if _hosts_of(paths) else ""
    try:
        db = sqlite3.connect(f"{paths.database.as_uri()}?mode=rw", uri=True)
        try:
            verdict = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        finally:
            db.close()
        if verdict != "ok":
            return f"{paths.database.name} was damaged ({verdict})"
        store = Store(paths.database)
        try:
            store.spec(), store.tasks(), store.hosts(), store.jobs()
            is_empty = store.get("spec") is None and not store.tasks()
        finally:
            store.close()
    except (sqlite3.DatabaseError, ValueError) as error:
        return f"{paths.database.name} was damaged ({error})"
    return f"{paths.database.name} was empty" if is_empty and paths.spec.exists() else ""


def _hosts_of(paths: ClusterPaths) -> list[str]:
    """List the hosts on which an agent may run, by the files that there are of them here."""
    folder = paths.folder / "hosts"
    return sorted(item.name for item in folder.iterdir() if any(item.iterdir())) if folder.is_dir() else []


# ------------------------------------------------------------------ asking


def gather(paths: ClusterPaths, provider: Provider) -> tuple[list[Recalled], list[str]]:
    """Gather what the hosts keep, and the hosts that did not answer."""
    found: dict[str, Recalled] = {}
    asked = set(_hosts_of(paths))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for recalled in pool.map(lambda host: _ask_directly(paths, host), sorted(asked)):
            if recalled is not None:
                found[recalled.host] = recalled
    spec = _spec_of(paths, found.values())
    if spec is not None:
        provider.configure(spec)
        known = {host.name for host in spec.hosts}
        asked |= {host for host in known if provider.may_run(host)}
        _ask_over_ssh(paths, provider, sorted((asked & known) - found.keys()), found)
    return list(found.values()), sorted(asked - found.keys())


def _spec_of(paths: ClusterPaths, recalled: Iterable[Recalled]) -> ClusterSpec | None:
    newest = _newest(recalled)
    text = newest.entries.get("spec") if newest is not None else None
    try:
        return codec.decode(ClusterSpec, text or paths.spec.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _newest(recalled: Iterable[Recalled]) -> state_copy.Copy | None:
    found = [item.copy for item in recalled if item.copy.entries]
    return max(found, key=lambda copy: (copy.epoch, copy.revision), default=None)


def _ask_directly(paths: ClusterPaths, host: str) -> Recalled | None:
    """Ask a host at the address where its agent was last."""
    for name in ("endpoint.json", "agent.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            address = str(json.loads((paths.host(host) / name).read_bytes())["address"])
            try:
                return _recall(paths, host, address)
            except LauncherError as error:
                log.info("%s does not answer at %s: %s", host, address, error.message)
    return None


def _recall(paths: ClusterPaths, host: str, address: str) -> Recalled:
    channel = Channel(address, TlsFiles.of(paths.certificates, "controller"), "agent", paths.name)
    try:
        reply = channel.call(agent_calls.RECALL, RecallRequest(), timeout_s=RECALL_S)
    finally:
        channel.close()
    return Recalled.of(host, reply.copy, reply.state, reply.boot, reply.happening)


def _ask_over_ssh(paths: ClusterPaths, provider: Provider, hosts: Sequence[str], found: dict[str, Recalled]) -> None:
    """Ask hosts whose agents have to be found, or started again; some may be out of reach, and are not waited for."""
    left = set(hosts)
    news = threading.Condition()

    def ask(host: str) -> None:
        recalled = None
        try:
            endpoint = provider.find_agent(host) or provider.start_agent(host)
            recalled = _recall(paths, host, endpoint.called_at)
        except LauncherError as error:
            log.warning("%s cannot be asked: %s", host, error.message)
        with news:
            left.discard(host)
            if recalled is not None:
                found[host] = recalled
            news.notify_all()

    for host in hosts:
        guard.once(ask, args=(host,), name=f"recall-{host}").start()
    begun = time.monotonic()
    with news:
        while left:
            waited = time.monotonic() - begun
            patience = PATIENCE_S if _newest(found.values()) is not None else LONGEST_S
            if waited >= patience:
                return
            news.wait(patience - waited)


# ------------------------------------------------------------------ making it anew


def rebuild(paths: ClusterPaths, provider: Provider, why: str) -> None:
    """Make the database anew; the damaged one is kept.

    Raises:
        ClusterFailed: no host can be asked.
    """
    recalled, unheard = gather(paths, provider)
    if not recalled:
        names = ", ".join(unheard)
        raise ClusterFailed(
            f"{why}, and none of the hosts that know what runs can be asked ({names})",
            "try again when they can be reached, or give them up: dtfctl down --force",
        )
    write(paths, recalled, unheard, why)


def hand_over(
    paths: ClusterPaths, recalled: Sequence[Recalled], unheard: Sequence[str], why: str, place: ControllerPlace
) -> None:
    """Leave what `write` is to be called with to the controller that begins in this folder, or where it is sent."""
    write_whole(paths.recalled, codec.encode(_Handed(tuple(recalled), tuple(unheard), why, place)).encode())


def take_handed_over(paths: ClusterPaths) -> None:
    """Begin with what was handed over, if anything was."""
    if not paths.recalled.exists():
        return
    handed = codec.decode(_Handed, paths.recalled.read_bytes())
    write(paths, handed.recalled, handed.unheard, handed.why, handed.place)
    for item in handed.recalled:
        private_folder(paths.host(item.host))
    paths.recalled.unlink()


def write(
    paths: ClusterPaths,
    recalled: Sequence[Recalled],
    unheard: Sequence[str],
    why: str,
    place: ControllerPlace | None = None,
) -> None:
    """Write a new database of what hosts have told; the controller is at another `place` now."""
    newest = _newest(recalled)
    entries = {} if newest is None else dict(newest.entries)
    contents = state_copies.read(entries)
    spec = contents.spec or _spec_of(paths, ())
    if spec is not None and place is not None:
        spec = replace(spec, controller=place)
    fresh = paths.database.with_name("controller.db.new")
    for suffix in SUFFIXES:
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    store = Store(fresh)
    try:
        with store.transaction():
            epochs = [number for item in recalled for number in (item.copy.epoch, item.state.orders.epoch)]
            store.put("epoch", str(max(epochs)))
            if spec is not None and contents.tasks:
                store.set_spec(spec)
                store.put_tasks(_rows(spec, contents.tasks, recalled))
            store.put("task_command", codec.encode(contents.about.task_command))
            for row in contents.hosts:
                store.put_host(row)
            for job in contents.jobs:
                store.add_job(_settled(paths, job, contents.scripts))
            for item in recalled:
                if item.boot:
                    store.put(f"seen:{item.host}", f"{item.boot} {item.happening}")
            text = _words(paths, why, contents, len(recalled), unheard)
            store.add_event("controller.rebuilt", "controller", text)
            store.put("note", text)
    finally:
        store.close()
    past = ledger.read(paths.ledger)
    for job in contents.jobs:
        past = past.with_job(job.id, ledger.PastJob(job.uid, job.checkpoint_dir))
    ledger.write(paths.ledger, past)
    _set_aside(paths)
    fresh.replace(paths.database)
    log.warning("%s", text)


def _rows(spec: ClusterSpec, rows: Iterable[TaskRow], recalled: Sequence[Recalled]) -> list[TaskRow]:
    """Make the rows in the order of the spec: as wanted, where the hosts say that they run."""
    incarnations: dict[str, int] = {}
    starts: dict[str, int] = {}
    requests: dict[str, int] = {}
    runs: dict[str, tuple[int, str]] = {}
    for item in recalled:
        orders = {order.name: order for order in item.state.orders.tasks}
        for name, record in item.state.records.items():
            incarnations[name] = max(record.incarnation, incarnations.get(name, 0))
            starts[name] = max(record.restarts + 1 if record.incarnation else 0, starts.get(name, 0))
            if name in orders and orders[name].run and record.state in ALIVE:
                runs[name] = max(runs.get(name, (0, "")), (record.incarnation, item.host))
        for order in orders.values():
            requests[order.name] = max(order.restart_request, requests.get(order.name, 0))
            incarnations[order.name] = max(order.incarnation_floor, incarnations.get(order.name, 0))
            starts[order.name] = max(order.starts_floor, starts.get(order.name, 0))
        for peer in item.state.orders.peers:
            incarnations[peer.name] = max(peer.incarnation, incarnations.get(peer.name, 0))
    known = {row.name: row for row in rows}
    found = []
    for name in spec.task_names:
        row = known.get(name)
        if row is None:
            continue
        host = runs[name][1] if name in runs else row.host
        request = max(row.restart_request, requests.get(name, 0))
        move_to = "" if row.move_to == host else row.move_to
        row = replace(row, incarnation=incarnations.get(name, 0), starts=starts.get(name, 0))
        found.append(replace(row, host=host, move_to=move_to, restart_request=request))
    return found


def _settled(paths: ClusterPaths, job: JobRecord, scripts: dict[str, bytes]) -> JobRecord:
    """Change a job to its files here, which may be another machine than that of before."""
    folder = paths.job(job.key)
    script = folder / "code" / Path(job.script).name
    job = replace(job, folder=str(folder), script=str(script))
    if job.is_final:
        return job
    if job.id in scripts and not script.exists():
        private_folder(script.parent)
        write_whole(script, scripts[job.id], 0o700)
    # One that runs has its script on its hosts; what else was sent for jobs hosts have (`workloads/job_files.py`).
    if not job.placed and not script.exists():
        reason = "its script was lost with the controller's files; submit it again"
        return replace(job, state="failed", exit_code=1, reason=reason, ended=time.time())
    return job


def _words(paths: ClusterPaths, why: str, contents: state_copies.Contents, hosts: int, unheard: Sequence[str]) -> str:
    active = sum(not job.is_final for job in contents.jobs)
    text = f"{why}; made anew from {hosts} host{'s' * (hosts != 1)}: {len(contents.tasks)} tasks, {active} active jobs"
    if unheard:
        text += f"; not asked: {', '.join(unheard)}"
    if any((paths.folder / (paths.database.name + suffix)).exists() for suffix in SUFFIXES):
        text += f"; the former file is in {paths.logs}"
    return text


def _set_aside(paths: ClusterPaths) -> None:
    """Keep what there is of the former database."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    private_folder(paths.logs)
    for suffix in SUFFIXES:
        path = paths.database.with_name(paths.database.name + suffix)
        if path.exists():
            path.replace(paths.logs / f"{paths.database.name}.{stamp}.{os.getpid()}{suffix}")
