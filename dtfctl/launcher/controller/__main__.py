"""python -m dtfctl.launcher.controller --lock-fd N FOLDER: the controller of the cluster in FOLDER, until `down`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from pathlib import Path

from dtfctl.launcher import metrics
from dtfctl.launcher.certificates import TlsFiles
from dtfctl.launcher.controller.engine import Engine
from dtfctl.launcher.controller.page import MetricsPage
from dtfctl.launcher.controller.relay import Relay
from dtfctl.launcher.controller.service import ControllerService
from dtfctl.launcher.daemon import own_lock
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.files import write_whole
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.procfs import identify
from dtfctl.launcher.providers.hosts import HostProviders
from dtfctl.launcher.rpc import serve

STOP_S = 1.0
THREADS = 160
"""Each command of `exec` and each transfer holds one, beside the long polls."""
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
        return run(ClusterPaths(args.folder))
    except LauncherError as error:
        log.error("%s %s", error.message, error.hint)
        return error.exit_code


def run(paths: ClusterPaths) -> int:
    created = float(json.loads(paths.info.read_bytes())["created"])
    providers = HostProviders(paths)
    engine = Engine(paths, created, providers)
    tls = TlsFiles.of(paths.certificates, "controller")
    page = MetricsPage(lambda: _metrics(engine), tls, TlsFiles.of(paths.readers, "metrics"))
    handlers = {**ControllerService(engine, page.open).handlers(), **Relay(engine).handlers()}
    server, port = serve(handlers, tls, threads=THREADS)
    known = engine.current_spec()
    if known is not None:
        page.keep_open(known)
    engine.address = f"127.0.0.1:{port}"
    me = identify(os.getpid())
    assert me is not None
    info = {"pid": me.pid, "start_ticks": me.start_ticks, "address": engine.address}
    write_whole(paths.controller_info, json.dumps(info).encode())
    engine.run()
    page.close()
    providers.close()
    server.stop(STOP_S).wait()
    paths.controller_info.unlink(missing_ok=True)
    engine.store.close()
    return 0


def _metrics(engine: Engine) -> str:
    status, events = engine.call(lambda: (engine.status()[0], engine.store.last_event()))
    return metrics.render(status, events)


if __name__ == "__main__":
    sys.exit(main())
