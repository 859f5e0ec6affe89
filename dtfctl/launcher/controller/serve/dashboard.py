"""The dashboard's page, which a process of its own serves: started, started again, and ended by the controller.

That process is of the program `dtfctl.dashboard`, which the launcher knows by name alone: nothing that a page does can
hurt the controller. As all processes of a cluster it outlives the one above it. It finds a controller that has died
started again by its next call, and the new one takes it over. What is wanted is in a file, with the token; so the page
comes back at its address, whoever died.

The controller opens the port and hands it on, so that it says at once whether it is taken; it does not listen itself.
"""

from __future__ import annotations

import logging
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable

from dtfctl import guard
from dtfctl.launcher.errors import Conflict, ControllerUnreachable, PortTaken, UsageError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.messages.controller_calls import CLOSE_DASHBOARD, OPEN_DASHBOARD, SHOW_STUDY
from dtfctl.launcher.messages.dashboard import (
    DashboardClosed,
    DashboardReply,
    DashboardRequest,
    ServedPage,
    ServingProcess,
    StudyToShow,
)
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.local import died
from dtfctl.launcher.rpc.method import Handler, Method
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.daemon import is_locked, start_daemon
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.procfs import ProcessId, is_alive, port_holder, send_signal
from dtfctl.net.listener import listen_tcp
from dtfctl.values import replace

log = logging.getLogger(__name__)

PROGRAM = "dtfctl.dashboard"
LOG = "dashboard.log"
LOOK_S = 0.25
POLL_S = 0.01
SERVED_S = 60.0
STOP_S = 3.0
FREED_S = 1.0
"""The threads of a process that was killed may hold its port a little longer than itself."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
CALM_S = 60.0
"""A process that has served for so long begins again with the first pause."""
TOKEN_BYTES = 24


class DashboardKeeper:
    """Has at most one process serve the page, while that is wanted.

    Args:
        tell: is given what has happened, for the cluster's events.
    """

    def __init__(self, paths: ClusterPaths, tell: Callable[[str], None]) -> None:
        self._paths = paths
        self._tell = tell
        self._lock = threading.RLock()
        self._page: ServedPage | None = None
        self._door: socket.socket | None = None
        self._pause = FIRST_PAUSE_S
        self._started_at = 0.0
        self._next_start = 0.0
        self._complaint = ""
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {OPEN_DASHBOARD: self._open, CLOSE_DASHBOARD: self._close, SHOW_STUDY: self._show_study}

    # ------------------------------------------------------------------ what is wanted

    def resume(self, spec: ClusterSpec | None) -> None:
        """Go on as the controller before this one, and as the spec says. A port that is taken is tried again."""
        with self._lock:
            page = read_page(self._paths)
            port = None if spec is None else spec.dashboard.port
            if port is not None and (page is None or port not in (0, page.port)):
                page = replace(_fresh(port) if page is None else page, port=port, any_port=not port, from_spec=True)
            if page is not None:
                self._want(page)

    def follow(self, spec: ClusterSpec) -> None:
        """Have the page where `spec` says; nowhere, where it has said so before and does not any more.

        Raises:
            PortTaken: another process has the port. The page stays as it was.
        """
        with self._lock:
            if spec.dashboard.port is not None:
                self._settle(spec.dashboard.port, from_spec=True)
            elif self._page is not None and self._page.from_spec:
                self._drop("the cluster's file wants it no more")

    def _open(self, request: DashboardRequest) -> DashboardReply:
        """Raises Conflict: the port is taken, or the spec says another. ClusterFailed, ControllerUnreachable."""
        with self._lock:
            try:
                page = self._settle(request.port, from_spec=False)
            except PortTaken as error:
                raise Conflict(error.message, "choose another with --port") from None
        self._wait_served()
        return DashboardReply(page.port, page.token, page.from_spec)

    def _close(self, _request: Nothing) -> DashboardClosed:
        """Raises Conflict: the spec wants it."""
        with self._lock:
            if self._page is None:
                return DashboardClosed(False)
            if self._page.from_spec:
                raise Conflict(
                    "the cluster's file has a `dashboard:`", "take it out of the file, and run `dtfctl up` with that"
                )
            self._drop("by the user")
            return DashboardClosed(True)

    def _show_study(self, request: StudyToShow) -> Nothing:
        """Keep what the page is to show of a study, also while there is no page. Raises UsageError."""
        if re.fullmatch("[A-Za-z0-9_-]{1,100}", request.name) is None:
            raise UsageError(f"{request.name!r} is no name of a study")
        write_whole(private_folder(self._paths.studies) / f"{request.name}.json", request.content.encode())
        return Nothing()

    def end(self) -> None:
        """End the page, with the cluster."""
        self._over.set()
        with self._lock:
            self._drop("")

    def _settle(self, port: int | None, *, from_spec: bool) -> ServedPage:
        """Settle where the page is to be, and start it there. Hold the lock."""
        before = self._page
        if before is not None and port in (None, 0, before.port):
            page = before
            if from_spec and not before.from_spec:
                page = replace(before, any_port=not port, from_spec=True)
            self._want(page)
            self._look()
            return page
        if before is not None and before.from_spec and not from_spec:
            raise Conflict(
                f"the cluster's file has the dashboard at port {before.port}", "leave --port out, or change the file"
            )
        door = _bind(port or 0)
        self._stop()
        self._door = door
        page = _fresh(door.getsockname()[1]) if before is None else replace(before, port=door.getsockname()[1])
        page = replace(page, any_port=not port, from_spec=from_spec)
        self._pause, self._next_start = FIRST_PAUSE_S, 0.0
        self._want(page)
        self._tell(f"at port {page.port} of this machine's loopback")
        self._look()
        return page

    def _want(self, page: ServedPage) -> None:
        if page != self._page:
            write_whole(self._paths.dashboard, codec.encode(page).encode())
            self._page = page
        if self._watcher is None:
            self._watcher = guard.forever(self._watch, name="dashboard")
            self._watcher.start()

    def _drop(self, why: str) -> None:
        is_open, self._page = self._page is not None, None
        self._stop()
        forget_dashboard(self._paths)
        if is_open and why:
            self._tell(f"closed: {why}")

    # ------------------------------------------------------------------ the process

    def _watch(self) -> None:
        while not self._over.is_set():
            with self._lock:
                self._look()
            self._over.wait(LOOK_S)

    def _look(self) -> None:
        """Start the process where it is wanted and does not run. Hold the lock."""
        if self._page is not None and not self._paths.dashboard.exists():
            self._drop("its files are gone")
        page, now = self._page, time.monotonic()
        if page is None or self._over.is_set() or is_locked(self._paths.dashboard_lock) or now < self._next_start:
            return
        if self._started_at:
            self._tell("its process had ended, and is started again")
        if now - self._started_at > CALM_S:
            self._pause = FIRST_PAUSE_S
        self._next_start, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        try:
            self._start(page)
            self._complaint = ""
        except PortTaken as error:
            if error.message != self._complaint:
                log.error("%s", error.message)
                self._tell(error.message)
            self._complaint = error.message

    def _start(self, page: ServedPage) -> None:
        if self._door is None:
            self._door = self._bind_again(page)
        self._paths.dashboard_process.unlink(missing_ok=True)
        fd = self._door.fileno()
        if start_daemon(
            PROGRAM,
            ["--door-fd", str(fd), str(self._paths.folder)],
            log=private_folder(self._paths.logs) / LOG,
            lock=self._paths.dashboard_lock,
            hand_on=[fd],
        ):
            self._started_at = time.monotonic()
            self._shut()

    def _bind_again(self, page: ServedPage) -> socket.socket:
        deadline = time.monotonic() + FREED_S
        while True:
            try:
                return _bind(page.port)
            except PortTaken:
                if time.monotonic() > deadline:
                    if not page.any_port:
                        raise
                    break
            time.sleep(POLL_S)
        door = _bind(0)
        moved = replace(page, port=door.getsockname()[1])
        write_whole(self._paths.dashboard, codec.encode(moved).encode())
        self._page = moved
        self._tell(f"at port {moved.port}: {page.port} is taken by now")
        return door

    def _stop(self) -> None:
        self._started_at = 0.0
        end_dashboard(self._paths)
        self._shut()

    def _shut(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None

    def _wait_served(self) -> None:
        log_file = self._paths.logs / LOG
        deadline = time.monotonic() + SERVED_S
        while time.monotonic() < deadline and not self._over.is_set():
            if not is_locked(self._paths.dashboard_lock):
                raise died(log_file, "the process that serves the dashboard ended at once")
            found = _read_process(self._paths)
            if found is not None and found.serves:
                return
            time.sleep(POLL_S)
        raise ControllerUnreachable(f"the dashboard did not start within {SERVED_S:.0f} s", f"see {log_file}")


def read_page(paths: ClusterPaths) -> ServedPage | None:
    """Read what is wanted; None: no page."""
    try:
        return codec.decode(ServedPage, paths.dashboard.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def end_dashboard(paths: ClusterPaths) -> None:
    """End the process that serves the page, and wait for that. It starts a controller that it misses: end it first."""
    deadline, asked = time.monotonic() + STOP_S, False
    while is_locked(paths.dashboard_lock):
        found, now = _read_process(paths), time.monotonic()
        is_late = now > deadline
        if found is not None:
            if not asked or is_late:
                number = signal.SIGKILL if is_late else signal.SIGTERM
                asked = send_signal(ProcessId(found.pid, found.start_ticks), number)
        elif now > deadline + STOP_S:
            log.error("a process that serves the dashboard of %s goes on, and which is not known", paths.folder)
            return
        elif is_late:
            # Its file is gone: it ends by itself when what is wanted is gone, too.
            paths.dashboard.unlink(missing_ok=True)
        time.sleep(POLL_S)


def forget_dashboard(paths: ClusterPaths) -> None:
    """Delete the page's files."""
    for path in (paths.dashboard, paths.dashboard_process, paths.dashboard_opener, paths.dashboard_lock):
        path.unlink(missing_ok=True)


def _read_process(paths: ClusterPaths) -> ServingProcess | None:
    try:
        found = codec.decode(ServingProcess, paths.dashboard_process.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if is_alive(ProcessId(found.pid, found.start_ticks)) else None


def _fresh(port: int) -> ServedPage:
    return ServedPage(port, secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))


def _bind(port: int) -> socket.socket:
    try:
        return listen_tcp("127.0.0.1", port)[0]
    except OSError as error:
        holder = port_holder(port)
        who = f" by pid {holder[0]} ({holder[1]})" if holder else ""
        raise PortTaken(
            f"the port {port} of the dashboard is taken{who}: {error.strerror}", "free it, or choose another"
        ) from None
