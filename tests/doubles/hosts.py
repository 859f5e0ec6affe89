"""Several hosts on one machine: real agents and tasks, each host a name and a folder; and a controller in this process.

A host can be lost (`cut`: its agent stands still and cannot be replaced; its tasks run on), come back (`mend`), or lose
power (`power_off`: every process is killed; `power_on`). What needs real networks is for the lab.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.controller.loop import ControllerLoop
from dtfctl.launcher.controller.serve.service import ControllerService
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.model import ClusterStatus, Event, HostStatus, TaskStatus
from dtfctl.launcher.operator import controller_client, local_controller
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import AgentEndpoint
from dtfctl.launcher.providers.local import LocalProvider
from dtfctl.launcher.rpc.server import serve
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName
from dtfctl.launcher.system.files import write_whole
from dtfctl.launcher.system.procfs import identify, send_signal

STUB = Path(__file__).parents[1] / "cluster" / "stub_task.py"
PATIENCE_S = 60.0


class ManyHosts(LocalProvider):
    """Agents of hosts of any name, here; those in `cut` cannot be reached."""

    def __init__(self, paths: ClusterPaths) -> None:
        super().__init__(paths)
        self.cut: set[str] = set()

    def find_agent(self, host: str) -> AgentEndpoint | None:
        self._check(host)
        return super().find_agent(host)

    def start_agent(self, host: str) -> AgentEndpoint:
        self._check(host)
        return super().start_agent(host)

    def kill_agent(self, host: str, *, if_it_hangs: bool = False) -> bool:
        self._check(host)
        return super().kill_agent(host, if_it_hangs=if_it_hangs)

    def _check(self, host: str) -> None:
        if host in self.cut:
            raise LauncherError(f"no route to host {host}")


def hosts(*names: str, **changes: Any) -> HostGroup:
    return HostGroup(tuple(HostName(name) for name in names), **changes)


class ManyHostCluster:
    """A cluster over such hosts, with stub tasks."""

    def __init__(self, name: str, command: Sequence[str] = (sys.executable, str(STUB))) -> None:
        self.name = name
        self.paths = ClusterPaths.of(name)
        self.command = tuple(command)
        controller_client.prepare(self.paths)
        self.provider = ManyHosts(self.paths)
        self.start_controller()

    # ------------------------------------------------------------------ controller

    def start_controller(self) -> None:
        created = controller_client.read_created(self.paths)
        assert created is not None
        self.engine = ControllerLoop(self.paths, created, self.provider)
        handlers = ControllerService(self.engine, lambda spec: None).handlers()
        self._server = serve(handlers, TlsFiles.of(self.paths.certificates, "controller"))
        self.engine.address = f"127.0.0.1:{self._server.port}"
        me = identify(os.getpid())
        assert me is not None
        info = {"pid": me.pid, "start_ticks": me.start_ticks, "address": self.engine.address}
        write_whole(self.paths.controller_info, json.dumps(info).encode())
        self._thread = threading.Thread(target=self.engine.run, daemon=True)
        self._thread.start()

    def stop_controller(self) -> None:
        """As if it had been killed: agents and tasks are left alone."""
        for host in self.engine.hosts.all.values():
            host.link.close()
        self.engine.finish()
        self._thread.join()
        self._server.stop(0)
        self.engine.store.close()

    def close(self) -> None:
        for host in list(self.provider.cut):
            self.mend(host)
        self.engine.begin_down()
        problems = self.engine.hosts.stop_all(0.2)
        self.stop_controller()
        local_controller.forget(self.paths)
        assert not problems, problems

    # ------------------------------------------------------------------ what a user does and sees

    def api(self) -> Cluster:
        return Cluster(self.name)

    def up(self, spec: ClusterSpec, *, wait: bool = True) -> tuple[str, ...]:
        changes = self.engine.call(lambda: self.engine.tasks.apply(spec, self.command, False)).lines
        if wait:
            self.wait(lambda s: bool(s.tasks) and all(t.state == "running" for t in s.tasks), "every task runs")
        return tuple(changes)

    def status(self) -> ClusterStatus:
        return self.engine.read(self.engine.status)[0]

    def task(self, name: str) -> TaskStatus:
        return next(task for task in self.status().tasks if task.name == name)

    def host(self, name: str) -> HostStatus:
        return next(host for host in self.status().hosts if host.name == name)

    def places(self) -> dict[str, str]:
        return {task.name: task.host for task in self.status().tasks}

    def incarnations(self) -> dict[str, int]:
        return {task.name: task.incarnation for task in self.status().tasks}

    def events(self, kind: str = "") -> list[Event]:
        return [event for event in self.api().events() if event.kind.startswith(kind)]

    def wait(self, condition: Callable[[ClusterStatus], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = condition(self.status())
            if found:
                return found
            time.sleep(0.05)
        tasks = [(t.name, t.state, t.host, t.incarnation, t.last_error) for t in self.status().tasks]
        told = [f"{e.kind} {e.subject} {e.reason}" for e in self.events()[-30:]]
        raise AssertionError(f"not within {timeout_s:.0f} s: {what}\n{tasks}\n" + "\n".join(told))

    # ------------------------------------------------------------------ faults

    def processes(self, host: str) -> dict[int, str]:
        """Live processes of a host, its agent's first: pid to command line."""
        folder, found = str(self.paths.host(host)) + "/", {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and identify(int(entry.name)):
                try:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if folder in command + "/" or f"--folder {folder[:-1]} " in command:
                    found[int(entry.name)] = command
        return dict(sorted(found.items(), key=lambda item: "dtfctl.launcher.agent" not in item[1]))

    def cut(self, host: str) -> None:
        """Nothing comes from there any more, and nothing gets there; tasks run on."""
        self.provider.cut.add(host)
        self._signal_agent(host, signal.SIGSTOP)

    def mend(self, host: str) -> None:
        self._signal_agent(host, signal.SIGCONT)
        self.provider.cut.discard(host)

    def power_off(self, host: str) -> None:
        self.provider.cut.add(host)
        for pid in self.processes(host):
            process = identify(pid)
            if process is not None:
                send_signal(process, signal.SIGKILL)

    def power_on(self, host: str) -> None:
        self.provider.cut.discard(host)

    def kill_task(self, name: str, number: int = signal.SIGKILL) -> None:
        pid = self.task(name).pid
        process = identify(pid) if pid else None
        assert process is not None, f"{name} does not run"
        send_signal(process, number, group=True)

    def _signal_agent(self, host: str, number: int) -> None:
        endpoint = LocalProvider.find_agent(self.provider, host)
        if endpoint is not None:
            send_signal(endpoint.process, number)


def live_copies(cluster: ManyHostCluster, names: Sequence[str]) -> Mapping[str, list[str]]:
    """Host and pid of every live process of each task."""
    found: dict[str, list[str]] = {}
    for host in cluster.engine.hosts.all:
        for pid, command in cluster.processes(host).items():
            for name in names:
                folder = f"/runs/{name.replace('/', '-')}/"
                if folder in command and "/keeper." not in command:
                    found.setdefault(name, []).append(f"{host}:{pid}")
    return found
