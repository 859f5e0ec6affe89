"""What the operator's machine does over SSH for a cluster whose controller runs on one of its hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtfctl.launcher.errors import from_wire
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.bundle import Platform
from dtfctl.launcher.providers.conversation import ASK_S
from dtfctl.launcher.providers.own_login import Met
from dtfctl.launcher.providers.ssh import SshLine, SshProvider

CONTROLLER_S = 90.0
"""The seconds for all that a host is asked about its controller."""


class Operator(SshProvider):
    """The same connections as for agents, with other requests. The calls block and come from any thread."""

    def control(self, host: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask dtfctl on `host`, installed first if need be; see `operator/on_controller_host.py`.

        Raises:
            HostFailed: it cannot be asked. LauncherError: what it could not do.
        """
        reply: dict[str, Any] = self._run(self._control(host, request), None)
        if "error" in reply:
            raise from_wire(reply["error"], reply["message"], reply["hint"])
        return reply

    def introduce(self, hosts: Sequence[str], line: str) -> dict[str, Met]:
        """Add `line` to the authorized keys of all hosts at once; what was found there, or why not."""
        return self._run(self._each(hosts, lambda host: self._introduce(host, line)), None)

    def forbid(self, hosts: Sequence[str], line: str) -> dict[str, Met]:
        """Take it away again."""
        return self._run(self._each(hosts, lambda host: self._forbid(host, line)), None)

    def adopt(self, hosts: Sequence[str]) -> dict[str, dict[str, Any] | HostFailed]:
        """Make the cluster this user's on all hosts at once; what each answers, or why it does not."""
        return self._ask_each(hosts, "adopt")

    def end_controllers(self, hosts: Sequence[str], force: bool) -> dict[str, dict[str, Any] | HostFailed]:
        """End the cluster's controllers on these hosts, and let them log in to none any more; `force`: whosever."""
        return self._ask_each(hosts, "end_controllers", force=force, drop=True)

    def _ask_each(self, hosts: Sequence[str], what: str, **values: Any) -> dict[str, dict[str, Any] | HostFailed]:
        async def one(host: str) -> dict[str, Any] | HostFailed:
            try:
                return await self._ask(host, what, ASK_S, **values)
            except HostFailed as error:
                return error

        async def each() -> list[dict[str, Any] | HostFailed]:
            return await asyncio.gather(*(one(host) for host in hosts))

        return dict(zip(hosts, self._run(each(), None), strict=True))

    def expect(self, host: str) -> None:
        """Note that an agent of ours may run there."""
        self._expect(host)

    def send(self, host: str, path: Path) -> str:
        """Upload a file; where it lies there."""
        return self._run(self._put_file(host, path), None)

    # ------------------------------------------------------------------ in the loop

    async def _each(self, hosts: Sequence[str], work: Callable[[str], Awaitable[Met]]) -> dict[str, Met]:
        async def one(host: str) -> Met:
            try:
                return await work(host)
            except HostFailed as error:
                return Met.failed(error)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(host)) for host in hosts]
        return {host: task.result() for host, task in zip(hosts, tasks, strict=True)}

    async def _introduce(self, name: str, line: str) -> Met:
        host = self._hosts[name]
        async with host.lock:
            conversation = await self._talk(host)
            owner = await self._in_thread(self._owner)
            request = {"do": "authorize", "cluster": self._paths.name, "owner": owner, "line": line}
            facts = (await conversation.ask(request, ASK_S))["facts"]
            way = conversation.line
            assert isinstance(way, SshLine)
            connection = way.connection
            key = connection.get_server_host_key()
            if key is None:
                raise HostFailed("host-key", "its host key has no public part", "dtfctl needs plain host keys there")
            public = " ".join(key.export_public_key().decode().split()[:2])
            notes = tuple(self._logins.unheeded.get(name, ())) if self._logins is not None else ()
            user = connection.get_extra_info("username")
            return Met(facts["address"], facts["port"], user, public, notes=notes)

    def _tell_notes(self, host: str, notes: Sequence[str]) -> None:
        """Leave it to the controller, in whose events it belongs."""

    async def _forbid(self, name: str, line: str) -> Met:
        await self._ask(name, "forbid", ASK_S, line=line)
        return Met()

    async def _put_file(self, name: str, path: Path) -> str:
        host = self._hosts[name]
        async with host.lock:
            conversation = await self._talk(host)
            facts = await conversation.facts()
            return await conversation.upload(path, facts["base"], lambda _share: None)

    async def _control(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        host = self._hosts[name]
        async with host.lock:
            conversation = await self._talk(host)
            facts = await conversation.facts()
            platform = Platform.of_facts(facts)
            fast = self._spec is None or self._spec.fast
            bundle = await self._in_thread(lambda: self._bundles.of(platform, fast))
            # All of them before it starts: it is the controller that sends them to the other hosts.
            layers = [{**layer, "first": True} for layer in bundle.described()]
            names = {"runtime": bundle.runtime, "layers": layers if request["do"] == "start" else bundle.described()}
            for _ in range(2):
                asked = {"do": "controller", **names, "request": dict(request)}
                answer = await conversation.ask(asked, CONTROLLER_S)
                if "need" not in answer:
                    reply: dict[str, Any] = answer["reply"]
                    return reply
                await self._supply.provide(
                    *(name, conversation, platform, bundle, answer["need"]),
                    lambda detail: self.on_stage(name, "installing", detail),
                )
        raise HostFailed("install", "what was sent is not there: somebody else deletes files below its home")
