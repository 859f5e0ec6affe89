"""Hosts on which a shell can be had: over it come packages, files and keys, and it starts the agent, which is then
called at its own port.

How a shell is had is all in which kinds of hosts differ (`line.py`): by SSH (`ssh.py`), as a step of Slurm (`slurm/`).
One asyncio loop in a thread of its own serves all hosts; the calls of `Provider` come from the threads of the hosts'
links and wait for it. A host has one line and at its end one process of `host_side.py`, both closed when idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dtfctl import guard
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import ensure_certificate
from dtfctl.launcher.messages import codec
from dtfctl.launcher.paths import ClusterPaths, home
from dtfctl.launcher.providers import host_base, ownership
from dtfctl.launcher.providers.base import AgentEndpoint, HostFailed, OnGrant, OnStage, Stage, silent, unheard
from dtfctl.launcher.providers.bundle import Bundles, Platform
from dtfctl.launcher.providers.conversation import ASK_S, HELLO_S, Conversation
from dtfctl.launcher.providers.files import Synced, Syncs, setup_of
from dtfctl.launcher.providers.line import LINE_ERRORS, Line
from dtfctl.launcher.providers.own_login import SentSyncs
from dtfctl.launcher.providers.supply import UNPACK_S, Supply, mib
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.procfs import ProcessId
from dtfctl.launcher.system.pulse import AGENT_HANGS_S
from dtfctl.net.address import answers

log = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_S = 5.0
START_S = 90.0
SETUP_S = 3600.0
KNOCK_S = 1.0
UNPACKED_FACTOR = 4
"""How much larger synchronised files are on the disk of a host, at most, than on their way."""
LATER_AFTER_S = 5.0
"""Layers that only some programs use come so long after the last host that is being brought up."""
LATER_RETRY_S = (10.0, 60.0, 300.0)
BEFORE_START = frozenset({"disk", "install", "setup", "python", "owner"})
"""Causes that keep an agent from being started; with any other it may run although nobody has heard of it."""


@dataclass(slots=True)
class RemoteHost:
    """What is known about a host while the controller lives."""

    name: str
    user: str | None
    lock: asyncio.Lock
    conversation: Conversation | None = None


class RemoteProvider:
    """Agents on hosts on which a shell can be had; subclasses say how."""

    def __init__(self, paths: ClusterPaths) -> None:
        self._paths = paths
        self.on_stage: OnStage = silent
        self.on_grant: OnGrant = unheard
        self._bundles = Bundles(home() / "bundles")
        self._syncs: Syncs | SentSyncs = Syncs(home() / "bundles", ())
        self._spec: ClusterSpec | None = None
        self._hosts: dict[str, RemoteHost] = {}
        self._packs_ahead = False
        self._noted: set[str] = set()
        self._later: dict[str, asyncio.Task[None]] = {}
        self._ensuring = 0
        self._loop = asyncio.new_event_loop()
        self._thread = guard.forever(self._loop.run_forever, name="hosts")
        self._thread.start()
        self._supply = self._run(self._new_supply(), None)

    # ------------------------------------------------------------------ calls from the links' threads

    def configure(self, spec: ClusterSpec) -> None:
        self._run(self._configure(spec), ASK_S)

    def find_agent(self, host: str) -> AgentEndpoint | None:
        known = self._remembered(host)
        if known is None or not answers(known.address, KNOCK_S):
            found = self._run(self._look(host), None)
            if found is None:
                return None
            known = self._reachable(self._remember(host, found))
        self._loop.call_soon_threadsafe(self._bring_later, host)
        return known

    def start_agent(self, host: str) -> AgentEndpoint:
        found = self._reachable(self._remember(host, self._run(self._ensure(host), None)))
        self._loop.call_soon_threadsafe(self._bring_later, host)
        return found

    def _reachable(self, endpoint: AgentEndpoint) -> AgentEndpoint:
        """Find a way to an agent: its port, or another one.

        Raises:
            HostFailed: there is none.
        """
        raise NotImplementedError

    def refresh(self, host: str) -> None:
        self._run(self._refresh(host), None)

    def may_run(self, host: str) -> bool:
        return self._memory(host).exists()

    def wait_ended(self, host: str, timeout_s: float) -> bool:
        self._loop.call_soon_threadsafe(self._stop_later, host)
        reply = self._run(self._ask(host, "wait_ended", timeout_s + ASK_S, timeout_s=timeout_s), None)
        return bool(reply["ended"])

    def kill_agent(self, host: str, *, if_it_hangs: bool = False) -> bool:
        limit_s = AGENT_HANGS_S if if_it_hangs else 0.0
        return bool(self._run(self._ask(host, "kill", ASK_S, hangs_s=limit_s), None)["ended"])

    def clean(self, host: str) -> None:
        self._run(self._ask(host, "clean", ASK_S), None)
        self._memory(host).unlink(missing_ok=True)
        self._has_later(host).unlink(missing_ok=True)

    def give_back(self) -> bool:
        return False

    def begin_anew(self) -> None:
        """Begin nothing: nobody lends the hosts."""

    def close(self) -> None:
        self._run(self._close(), ASK_S)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, work: Coroutine[Any, Any, T], within_s: float | None) -> T:
        """Run a coroutine, each of which has its own deadlines; `within_s` is for those that only touch memory."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within_s)

    # ------------------------------------------------------------------ where agents were last

    def _memory(self, host: str) -> Path:
        return self._paths.host(host) / "endpoint.json"

    def _remember(self, host: str, info: dict[str, Any]) -> AgentEndpoint:
        private_folder(self._paths.host(host))
        write_whole(self._memory(host), json.dumps(info).encode())
        return _endpoint(host, info)

    def _read_memory(self, host: str) -> dict[str, Any]:
        """Read what is noted of a host's agent; empty: nothing."""
        try:
            found: dict[str, Any] = json.loads(self._memory(host).read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def _remembered(self, host: str) -> AgentEndpoint | None:
        try:
            return _endpoint(host, self._read_memory(host))
        except KeyError:
            return None

    def _expect(self, host: str) -> None:
        """Note on disk that an agent may run, before it can: who takes the cluster down must know where to look."""
        if not self.may_run(host):
            private_folder(self._paths.host(host))
            write_whole(self._memory(host), b"{}")

    # ------------------------------------------------------------------ in the loop

    async def _configure(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._supply.hosts = sum(not host.is_local for host in spec.hosts)
        self._syncs = await self._in_thread(lambda: self._files_of(spec))
        for host in spec.hosts:
            if not host.is_local and host.name not in self._hosts:
                self._hosts[host.name] = RemoteHost(host.name, host.user, asyncio.Lock())
        if not self._packs_ahead and any(not self.may_run(name) for name in self._hosts):
            self._packs_ahead = True  # once: who waits for what is packed keeps one of few threads
            self._loop.run_in_executor(None, self._pack_ahead)

    def _files_of(self, spec: ClusterSpec) -> Syncs | SentSyncs:
        """Find the files that the spec's `sync` sends."""
        return Syncs(home() / "bundles", spec.sync)

    def _pack_ahead(self) -> None:
        """Pack layers while logins take their time: most hosts are like this machine."""
        with contextlib.suppress(LauncherError):  # whose layers cannot be packed says so itself
            platform = Platform.of_facts(host_base.facts())
            for layer in self._bundles.of(platform, self._fast).layers:
                if layer.is_first:
                    self._loop.run_in_executor(None, self._bundles.archive, platform, layer)

    @property
    def _fast(self) -> bool:
        return self._spec is not None and self._spec.fast

    async def _new_supply(self) -> Supply:
        return Supply(self._bundles)

    async def _talk(self, host: RemoteHost) -> Conversation:
        """Take the host's open conversation, or begin a new one. The caller holds the host's lock."""
        if host.conversation is not None and not host.conversation.is_open:
            host.conversation.close()
            host.conversation = None
        if host.conversation is None:
            conversation = host.conversation = await self._begin(host)
            guard.repeat(self._loop.call_later, IDLE_S, partial(self._close_idle, host, conversation), name="host-idle")
        return host.conversation

    async def _begin(self, host: RemoteHost) -> Conversation:
        line, notes = await self._open(host)
        self._tell_notes(host.name, notes)
        try:
            own = None if self._spec is None else self._spec.home
            return await Conversation.begin(line, await self._in_thread(self._bundles.likely), own)
        except TimeoutError:
            raise HostFailed("unreachable", f"its shell did not answer within {HELLO_S:g} s") from None
        except LINE_ERRORS as error:
            raise HostFailed("unreachable", f"the connection was lost: {error}") from None

    async def _open(self, host: RemoteHost) -> tuple[Line, Sequence[str]]:
        """Open a line to a host; also what of the settings for that is not obeyed.

        Raises:
            HostFailed: it cannot be.
        """
        raise NotImplementedError

    def _tell_notes(self, host: str, notes: Sequence[str]) -> None:
        """Tell what of the settings is not obeyed, once."""
        for note in notes:
            if note not in self._noted:
                self._noted.add(note)
                self.on_stage(host, "note", note)

    def _close_idle(self, host: RemoteHost, conversation: Conversation) -> bool:
        """Close a conversation that is idle; tell whether it is to be looked at again."""
        if host.conversation is not conversation:
            return False
        is_idle = not host.lock.locked() and self._loop.time() - conversation.used >= IDLE_S
        if is_idle and not (conversation.is_needed and conversation.is_open):
            conversation.close()
            host.conversation = None
            return False
        return True

    async def _ask(self, name: str, what: str, within_s: float, **values: Any) -> dict[str, Any]:
        host = self._hosts[name]
        async with host.lock:
            conversation = await self._talk(host)
            owner = await self._in_thread(self._owner)
            request = {"do": what, "cluster": self._paths.name, "owner": owner, "host": name, **values}
            return await conversation.ask(request, within_s)

    async def _look(self, name: str) -> dict[str, Any] | None:
        reply = await self._ask(name, "look", ASK_S)
        agent: dict[str, Any] | None = reply["agent"]
        return agent

    async def _ensure(self, name: str) -> dict[str, Any]:
        """Supply a host with all it needs; return the agent's description once it runs."""
        self._ensuring += 1
        try:
            return await self._ensure_alone(name)
        finally:
            self._ensuring -= 1

    async def _ensure_alone(self, name: str) -> dict[str, Any]:
        host = self._hosts[name]
        async with host.lock:
            conversation = await self._talk(host)

            def stage(what: Stage, detail: str) -> None:
                self.on_stage(name, what, detail)

            facts = await conversation.facts()
            platform = Platform.of_facts(facts)
            # Taken together: the spec may be another one before this host is done.
            spec, syncs = self._spec, self._syncs
            assert spec is not None
            bundle = await self._in_thread(lambda: self._bundles.of(platform, spec.fast))
            synced = await self._in_thread(syncs.current)
            certificates = await self._in_thread(lambda: self._certificates(name, facts["address"]))
            request = {
                "do": "ensure",
                "cluster": self._paths.name,
                "owner": await self._in_thread(self._owner),
                "host": name,
                "runtime": bundle.runtime,
                "layers": bundle.described(),
                "sync": [{"to": item.to, "hash": item.hash} for item in synced],
                "setup": setup_of(spec, synced),
                "python": spec.python or "",
                "certificates": certificates,
                "arguments": ["--came-from", facts["came_from"]] if facts["came_from"] else [],
                "address": "",
            }
            fresh = not self.may_run(name)
            for _ in range(3):
                await self._in_thread(lambda: self._expect(name))
                try:
                    reply = await conversation.ask(request, SETUP_S if spec.setup else START_S, stage)
                except HostFailed as error:
                    if fresh and error.cause in BEFORE_START:
                        await self._in_thread(lambda: self._memory(name).unlink(missing_ok=True))
                    raise
                if "need" not in reply:
                    agent: dict[str, Any] = reply["agent"]
                    return agent
                if fresh:
                    await self._in_thread(lambda: self._memory(name).unlink(missing_ok=True))
                facts = reply["facts"]
                layers = [item for item in reply["need"] if not item.startswith("sync:")]
                if layers:
                    await self._supply.provide(
                        name, conversation, platform, bundle, layers, lambda detail: stage("installing", detail)
                    )
                for item in reply["need"]:
                    if item.startswith("sync:"):
                        entry = synced[int(item.partition(":")[2])]
                        await self._provide_files(conversation, syncs, entry, facts, stage)
            raise HostFailed("install", "what was sent is not there: somebody else deletes files below its home")

    async def _refresh(self, name: str) -> None:
        host = self._hosts[name]
        async with host.lock:
            spec, syncs = self._spec, self._syncs
            assert spec is not None
            if not (spec.sync or spec.setup):
                return
            conversation = await self._talk(host)
            synced = await self._in_thread(syncs.current)
            request = {
                "do": "files",
                "cluster": self._paths.name,
                "owner": await self._in_thread(self._owner),
                "sync": [{"to": item.to, "hash": item.hash} for item in synced],
                "setup": setup_of(spec, synced),
            }

            def stage(what: Stage, detail: str) -> None:
                self.on_stage(name, what, detail)

            for _ in range(2):
                reply = await conversation.ask(request, SETUP_S, stage)
                if "need" not in reply:
                    return
                for item in reply["need"]:
                    entry = synced[int(item.partition(":")[2])]
                    await self._provide_files(conversation, syncs, entry, reply["facts"], stage)
            raise HostFailed("sync", "what was sent is not there: somebody else deletes files below its home")

    # ------------------------------------------------------------------ what comes when tasks run

    def _has_later(self, name: str) -> Path:
        return self._paths.host(name) / "layers"

    def _bring_later(self, name: str) -> None:
        """Begin to send a host the layers that tasks do not wait for, unless it has them or is being sent them."""
        known = self._later.get(name)
        if (known is None or known.done()) and not self._has_later(name).exists() and name in self._hosts:
            self._later[name] = guard.watched(self._loop.create_task(self._send_later(name)), name="host-later")

    def _stop_later(self, name: str) -> None:
        if name in self._later:
            self._later[name].cancel()

    async def _send_later(self, name: str) -> None:
        """Send what comes later over a connection of its own, as requests to the host must not wait for it."""
        for pause in (LATER_AFTER_S, *LATER_RETRY_S):
            await asyncio.sleep(pause)
            while self._ensuring:
                await asyncio.sleep(LATER_AFTER_S)
            try:
                await self._send_later_once(name)
                return
            except HostFailed as error:
                log.warning("%s: packages that come later: %s", name, error.message)
                self.on_stage(name, "layer", f"not sent: {error.message}")
            except Exception:  # nobody else would hear of it
                log.exception("%s: a bug in sending packages that come later", name)
                return

    async def _send_later_once(self, name: str) -> None:
        host = self._hosts[name]
        conversation = await self._begin(host)
        try:
            platform = Platform.of_facts(await conversation.facts())
            bundle = await self._in_thread(lambda: self._bundles.of(platform, self._fast))
            asked = {"do": "later", "layers": bundle.described()}
            missing = (await conversation.ask(asked, ASK_S))["missing"]
            for hash in missing:
                layer = bundle.layer(hash)
                begun = self._loop.time()
                try:
                    await self._supply.provide(name, conversation, platform, bundle, [hash], lambda _: None)
                except HostFailed as error:
                    with contextlib.suppress(HostFailed):
                        await conversation.ask({**asked, "why": error.message}, ASK_S)
                    raise
                took = self._loop.time() - begun
                self.on_stage(name, "layer", f"{layer.name} is there: {', '.join(layer.pins)} ({took:.1f} s)")
            if self._fast and all(layer.name != "fast" for layer in bundle.layers):
                self.on_stage(name, "layer", "no numba and oneDNN, as they are not installed where `up` ran")
            await self._in_thread(lambda: self._note_later(name))
            # What it has got it may hand on to others.
            while conversation.is_open and conversation.offers:
                await asyncio.sleep(1.0)
        finally:
            await conversation.end()

    def _note_later(self, name: str) -> None:
        if self.may_run(name):
            write_whole(self._has_later(name), b"")

    async def _provide_files(
        self,
        conversation: Conversation,
        syncs: Syncs | SentSyncs,
        entry: Synced,
        facts: dict[str, Any],
        stage: Callable[[Stage, str], None],
    ) -> None:
        """Send one entry of the spec's `sync`."""
        archive = await self._in_thread(lambda: syncs.archive(entry))
        values = {"do": "unpack_sync", "to": entry.to, "hash": entry.hash, "single": entry.single}
        await self._send(conversation, archive, entry.to, values, facts, lambda detail: stage("syncing", detail))

    async def _send(
        self,
        conversation: Conversation,
        archive: Path,
        what: str,
        request: dict[str, Any],
        facts: dict[str, Any],
        tell: Callable[[str], None],
    ) -> None:
        """Upload an archive, then make the request that unpacks it."""
        size = archive.stat().st_size
        if size * UNPACKED_FACTOR > facts["free_bytes"]:
            raise HostFailed(
                "disk",
                f"no space: {what} needs {mib(size * UNPACKED_FACTOR)}, {mib(facts['free_bytes'])} are free below "
                f"{facts['base']}",
            )
        tell(f"{what} ({mib(size)})")
        told = 0

        def share(part: float) -> None:
            nonlocal told
            if int(part * 10) > told:
                told = int(part * 10)
                tell(f"{what} ({mib(size)}, {told * 10}%)")

        uploaded = await conversation.upload(archive, facts["base"], share)
        await conversation.ask({**request, "archive": uploaded}, UNPACK_S)

    def _owner(self) -> dict[str, Any]:
        plain: dict[str, Any] = codec.to_plain(ownership.read(self._paths))
        return plain

    def _certificates(self, host: str, address: str) -> dict[str, str]:
        """Gather what the agent of a host proves itself with: file name to content."""
        folder, cluster = self._paths.certificates, self._paths.name
        addresses = (address,) if address else ()
        found = {"ca.pem": (folder / "ca.pem").read_text()}
        files = ensure_certificate(folder, cluster, "agent", host, addresses)
        for path in (files.cert, files.key):
            found[path.name] = path.read_text()
        return found

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(None, work)

    async def _close(self) -> None:
        for task in self._later.values():
            task.cancel()
        await asyncio.gather(*self._later.values(), return_exceptions=True)
        open_ones = [host.conversation for host in self._hosts.values() if host.conversation is not None]
        await asyncio.gather(*(conversation.end() for conversation in open_ones))


def _endpoint(host: str, info: dict[str, Any]) -> AgentEndpoint:
    return AgentEndpoint(host, info["address"], ProcessId(info["pid"], info["start_ticks"]))
