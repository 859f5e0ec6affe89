"""python -m dtfctl.launcher.controller --lock-fd N FOLDER: the controller of the cluster in FOLDER, until `down`."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtfctl import guard, tracing
from dtfctl.launcher.controller import rebuild
from dtfctl.launcher.controller.loop import ControllerLoop
from dtfctl.launcher.controller.serve import metrics
from dtfctl.launcher.controller.serve.certificate_service import CertificateService
from dtfctl.launcher.controller.serve.dashboard import DashboardKeeper
from dtfctl.launcher.controller.serve.metrics_page import MetricsPage
from dtfctl.launcher.controller.serve.relay import Relay
from dtfctl.launcher.controller.serve.service import ControllerService
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.hosts import HostProviders
from dtfctl.launcher.rpc.method import Handler, Method
from dtfctl.launcher.rpc.server import Server, serve
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.daemon import own_lock
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.procfs import identify
from dtfctl.net.descriptors import raise_limit

LOOPBACK = "127.0.0.1"
STOP_S = 1.0
log = logging.getLogger("dtfctl.launcher.controller")


def main() -> int:
    parser = argparse.ArgumentParser(prog="dtfctl-controller")
    parser.add_argument("--lock-fd", required=True, type=int)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        own_lock(args.lock_fd)
        raise_limit()
        return run(ClusterPaths(args.folder))
    except LauncherError as error:
        log.error("%s %s", error.message, error.hint)
        return error.exit_code


def run(paths: ClusterPaths) -> int:
    info = json.loads(paths.info.read_bytes())
    created = float(info["created"])
    listen = str(info.get("listen", LOOPBACK))
    providers = HostProviders(paths)
    rebuild.take_handed_over(paths)
    problem = rebuild.damage(paths)
    if problem:
        rebuild.rebuild(paths, providers, problem)
    if problem := tracing.start("dtfctl-controller"):
        log.warning("%s", problem)
    engine = ControllerLoop(paths, created, providers)
    tls = TlsFiles.of(paths.certificates, "controller")
    page = MetricsPage(lambda: _metrics(engine), tls, TlsFiles.of(paths.readers, "metrics"))
    dashboard = DashboardKeeper(paths, lambda text: engine.tell("controller.dashboard", "controller", text))

    def follow(spec: ClusterSpec) -> None:
        page.open(spec)
        dashboard.follow(spec)

    services = (ControllerService(engine, follow), Relay(engine), CertificateService(engine), dashboard)
    handlers = {method: handler for service in services for method, handler in service.handlers().items()}
    server = _serve(handlers, tls, listen, paths)
    known = engine.current_spec()
    if known is not None:
        page.keep_open(known)
    engine.address = f"{listen}:{server.port}"
    me = identify(os.getpid())
    assert me is not None
    found = {
        "pid": me.pid,
        "start_ticks": me.start_ticks,
        "address": engine.address,
        "socket": str(paths.controller_socket),
        "pulse": engine.pulse.fd,
    }
    write_whole(paths.controller_info, json.dumps(found).encode())
    if not engine.is_going_down:
        dashboard.resume(known)
    engine.run()
    # While this one answers: the page's process would have it started again.
    dashboard.end()
    page.close()
    providers.close()
    server.stop(STOP_S)
    if problem := tracing.finish():
        log.warning("%s", problem)
    paths.controller_info.unlink(missing_ok=True)
    engine.store.close()
    return 0


def _serve(handlers: Mapping[Method[Any, Any], Handler], tls: TlsFiles, listen: str, paths: ClusterPaths) -> Server:
    """Listen, on a host at the port that the controller had, where that is free: others on the network remember it."""
    socket_path = paths.controller_socket
    private_folder(socket_path.parent)
    if listen != LOOPBACK:
        with contextlib.suppress(ValueError, KeyError, OSError):
            before = str(json.loads(paths.controller_info.read_bytes())["address"])
            return serve(handlers, tls, before, socket_path)
    return serve(handlers, tls, f"{listen}:0", socket_path)


def _metrics(engine: ControllerLoop) -> str:
    status, events = engine.call(lambda: (engine.status()[0], engine.store.last_event()))
    return metrics.render(status, events, guard.faults())


if __name__ == "__main__":
    sys.exit(main())
