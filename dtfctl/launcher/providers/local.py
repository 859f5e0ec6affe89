"""Tasks on this machine: the same agent, started without SSH."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from dtfctl.launcher.errors import ClusterFailed, LauncherError
from dtfctl.launcher.identity.certificates import ensure_certificate
from dtfctl.launcher.paths import ClusterPaths, home
from dtfctl.launcher.providers.base import AgentEndpoint, OnGrant, OnStage, silent, unheard
from dtfctl.launcher.providers.files import Syncs
from dtfctl.launcher.providers.local_files import put_files
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.daemon import is_locked, start_daemon
from dtfctl.launcher.system.files import is_full, no_space, private_folder
from dtfctl.launcher.system.procfs import ProcessId, is_alive, send_signal
from dtfctl.launcher.system.pulse import AGENT_HANGS_S, hangs

START_S = 180.0
POLL_S = 0.005
LOOPBACK = "127.0.0.1"
KILL_S = 5.0


class LocalProvider:
    """The agent of `localhost`, in the cluster's own folder."""

    def __init__(self, paths: ClusterPaths) -> None:
        self._paths = paths
        self.on_stage: OnStage = silent
        self.on_grant: OnGrant = unheard
        self._spec: ClusterSpec | None = None
        self._syncs = Syncs(home() / "bundles", ())
        self.advertise = LOOPBACK
        """Where the agent and its tasks listen and are found; loopback unless other hosts take part."""

    def configure(self, spec: ClusterSpec) -> None:
        if self._spec is None or self._spec.sync != spec.sync:
            self._syncs = Syncs(home() / "bundles", spec.sync)
        self._spec = spec

    def find_agent(self, host: str) -> AgentEndpoint | None:
        content = self._info(host)
        try:
            process = ProcessId(content["pid"], content["start_ticks"])
            address = content["address"]
        except KeyError:
            return None
        return AgentEndpoint(host, address, process, socket=content.get("socket", "")) if is_alive(process) else None

    def _info(self, host: str) -> dict[str, Any]:
        """Read what a host's agent says about itself; empty: nothing."""
        try:
            found: dict[str, Any] = json.loads((self._paths.host(host) / "agent.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return found

    def refresh(self, host: str) -> None:
        spec = self._spec
        if spec is not None and (spec.sync or spec.setup):
            put_files(self._paths.name, spec, self._syncs, lambda stage, detail: self.on_stage(host, stage, detail))

    def start_agent(self, host: str) -> AgentEndpoint:
        self.refresh(host)
        paths = self._paths
        others = () if self.advertise == LOOPBACK else (self.advertise,)
        ensure_certificate(paths.certificates, paths.name, "agent", host, others)
        log = private_folder(paths.logs) / f"agent-{host}.log"
        lock = private_folder(paths.host(host)) / "agent.lock"
        arguments = [
            *("--cluster", paths.name),
            *("--host", host),
            *("--folder", str(paths.host(host))),
            *("--logs", str(paths.logs)),
            *("--certificates", str(paths.certificates)),
            *("--listen", self.advertise, "--advertise", self.advertise),
        ]
        started = start_daemon("dtfctl.launcher.agent", arguments, log=log, lock=lock)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            gone = not is_locked(lock)
            endpoint = self.find_agent(host)
            if endpoint is not None:
                return endpoint
            if gone and not started:
                started = start_daemon("dtfctl.launcher.agent", arguments, log=log, lock=lock)
            elif gone:
                raise died(log, f"the agent of {host} ended at once")
            time.sleep(POLL_S)
        raise ClusterFailed(f"the agent of {host} did not start within {START_S:.0f} s", f"see {log}")

    def may_run(self, host: str) -> bool:
        return self._paths.host(host).exists()

    def wait_ended(self, host: str, timeout_s: float) -> bool:
        lock = self._paths.host(host) / "agent.lock"
        deadline = time.monotonic() + timeout_s
        while is_locked(lock):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def kill_agent(self, host: str, *, if_it_hangs: bool = False) -> bool:
        endpoint = self.find_agent(host)
        if endpoint is None:
            return True
        if if_it_hangs and not hangs(endpoint.process, self._info(host).get("pulse"), AGENT_HANGS_S):
            return False
        send_signal(endpoint.process, signal.SIGKILL)
        deadline = time.monotonic() + KILL_S
        while is_alive(endpoint.process) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return True

    def clean(self, host: str) -> None:
        folder = self._paths.host(host)
        remove_socket_folder(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def begin_anew(self) -> None:
        """Begin nothing: nobody lends this machine."""

    def give_back(self) -> bool:
        return False

    def close(self) -> None:
        """Close nothing: nothing is held."""


def remove_socket_folder(host_folder: Path) -> None:
    """Delete the folder of sockets that an agent may have made elsewhere because its own path was too long."""
    try:
        content = json.loads((host_folder / "state.json").read_bytes())
        sockets = Path(content["socket_folder"])
    except (FileNotFoundError, ValueError, KeyError):
        return
    if sockets.name == "run" or sockets.name.startswith("dtf-"):
        shutil.rmtree(sockets, ignore_errors=True)


def died(log: Path, what: str) -> LauncherError:
    """Explain why a daemon that has just been started is gone."""
    if is_full(log.parent):
        return no_space(log.parent)
    return ClusterFailed(f"{what}: {last_line(log)}", f"see {log}")


def last_line(log: Path) -> str:
    """Read the last line of a daemon's log, for an error message."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return "no log"
    return lines[-1] if lines else "its log is empty"
