"""Find, start and put away the controller of a cluster on this machine; say what any place of one can do.

`remote_controller.py` has the same for a controller that runs on one of the cluster's hosts.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import time
from typing import Protocol

from dtfctl.launcher.errors import ControllerUnreachable
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.local import LOOPBACK, died, remove_socket_folder
from dtfctl.launcher.system.daemon import is_locked, start_daemon
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.system.procfs import ProcessId, is_alive, send_signal
from dtfctl.launcher.system.pulse import HANGS_S, hangs, silence_of
from dtfctl.net.address import UNIX

START_S = 180.0
POLL_S = 0.01
DYING_S = 0.5


class ControllerProcess(Protocol):
    """Where a controller runs. Calls block."""

    host: str
    """The host it runs on; empty: this machine."""

    def find(self) -> str | None:
        """Find the address at which it can be called, if it runs as far as can be told without starting anything."""

    def at_hand(self) -> str | None:
        """Find the address as `find` does; None where one would have to log in somewhere to call it."""

    def start(self) -> str:
        """Find the controller or start it again, and return its address once it runs.

        Raises:
            ControllerUnreachable, NoSpace, ClusterFailed: it cannot be started.
        """

    def does_not_answer(self) -> str:
        """End a controller that was found but hangs, so that the next `start` starts another one.

        Otherwise, what is known of it; empty: nothing.
        """

    def reach(self, address: str) -> str:
        """Make an address of the controller's machine one that can be called from here."""

    def lead(self, port: int) -> str:
        """Make a port of the loopback of the controller's machine an address that can be called from here."""

    def wait_gone(self) -> None:
        """Wait until no controller runs and none is on its way."""

    def forget(self, keep_logs: bool = True) -> None:
        """Delete what is left of a cluster whose processes have ended; checkpoints stay, and logs if wanted."""

    def close(self) -> None:
        """Let go of connections."""


class LocalController:
    """A controller on this machine."""

    host = ""

    def __init__(self, paths: ClusterPaths) -> None:
        self._paths = paths

    def find(self) -> str | None:
        found = find_controller(self._paths)
        return found[1] if found else None

    def at_hand(self) -> str | None:
        return self.find()

    def start(self) -> str:
        return start_controller(self._paths)

    def does_not_answer(self) -> str:
        found, pulse = find_controller(self._paths), _pulse_of(self._paths)
        if found is None:
            return ""
        process = found[0]
        if hangs(process, pulse, HANGS_S):
            end_controller(process)
            return ""
        silence = None if pulse is None else silence_of(process, pulse)
        turned = "" if silence is None else f", and its loop turned {silence:.1f} s ago"
        return f"its process runs (pid {process.pid}){turned}: it is not started again"

    def reach(self, address: str) -> str:
        return address

    def lead(self, port: int) -> str:
        return f"{LOOPBACK}:{port}"

    def wait_gone(self) -> None:
        wait_gone(self._paths)

    def forget(self, keep_logs: bool = True) -> None:
        forget(self._paths, keep_logs)

    def close(self) -> None:
        """Close nothing: nothing is held."""


def find_controller(paths: ClusterPaths) -> tuple[ProcessId, str] | None:
    """Find the live controller's process, and where it is called from its own machine."""
    try:
        content = json.loads(paths.controller_info.read_bytes())
        process = ProcessId(content["pid"], content["start_ticks"])
        address = f"{UNIX}{content['socket']}" if "socket" in content else str(content["address"])
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return (process, address) if is_alive(process) else None


def _pulse_of(paths: ClusterPaths) -> int | None:
    try:
        return int(json.loads(paths.controller_info.read_bytes())["pulse"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def start_controller(paths: ClusterPaths) -> str:
    """Start the controller, or find the one that somebody else is starting; its address."""
    log = private_folder(paths.logs) / "controller.log"
    lock = paths.controller_lock
    # On a host nobody's next command starts it again, so a shell does.
    kept = paths.login.exists() and not paths.controller_place.exists()

    def begin() -> bool:
        return start_daemon("dtfctl.launcher.controller", [str(paths.folder)], log=log, lock=lock, kept=kept)

    started = begin()
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        gone = not is_locked(lock)
        found = find_controller(paths)
        if found is not None:
            return found[1]
        if gone and not started:
            started = begin()
        elif gone:
            raise died(log, f"the controller of {paths.name} ended at once")
        time.sleep(POLL_S)
    raise ControllerUnreachable(f"the controller of {paths.name} did not start within {START_S:.0f} s", f"see {log}")


def end_controller(process: ProcessId) -> None:
    """Wait for a controller's end, and kill it if it does not end by itself; its successor adopts everything."""
    deadline = time.monotonic() + DYING_S
    while is_alive(process):
        if time.monotonic() > deadline:
            send_signal(process, signal.SIGKILL)
        time.sleep(POLL_S)


def wait_gone(paths: ClusterPaths, timeout_s: float = 10.0) -> None:
    """Wait until no controller runs and none is on its way; kill one that does not end in time."""
    deadline = time.monotonic() + timeout_s
    while is_locked(paths.controller_lock):
        found = find_controller(paths)
        if found is not None and time.monotonic() > deadline:
            send_signal(found[0], signal.SIGKILL)
        time.sleep(POLL_S)


def forget(paths: ClusterPaths, keep_logs: bool = True) -> None:
    """Delete what is left of a cluster whose processes have ended; checkpoints stay, and logs if wanted."""
    end_page(paths)
    hosts = paths.folder / "hosts"
    for host in hosts.iterdir() if hosts.is_dir() else ():
        remove_socket_folder(host)
    remove_files(paths)
    for path in (paths.info, paths.owner, paths.controller_info, paths.controller_lock):
        path.unlink(missing_ok=True)
    if paths.logs.is_dir() and not (keep_logs and any(paths.logs.iterdir())):
        shutil.rmtree(paths.logs)


def end_page(paths: ClusterPaths) -> None:
    """End the dashboard for good, where its controller cannot: it would have that started again."""
    if not paths.dashboard_lock.exists():
        return
    from dtfctl.launcher.controller.serve.dashboard import end_dashboard, forget_dashboard

    end_dashboard(paths)
    forget_dashboard(paths)


def remove_files(paths: ClusterPaths) -> None:
    """Delete all of a cluster's files but logs and checkpoints."""
    for folder in (paths.certificates, paths.folder / "hosts", paths.run, paths.blobs, paths.studies):
        shutil.rmtree(folder, ignore_errors=True)
    for name in ("", "-wal", "-shm", "-journal"):
        paths.database.with_name(paths.database.name + name).unlink(missing_ok=True)
    paths.spec.unlink(missing_ok=True)
    if paths.jobs.is_dir():
        for job in paths.jobs.iterdir():
            for item in job.iterdir():
                if item.name == "checkpoint" and any(item.iterdir()):
                    continue
                shutil.rmtree(item, ignore_errors=True) if item.is_dir() else item.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                job.rmdir()
        with contextlib.suppress(OSError):
            paths.jobs.rmdir()
