"""python -m dtfctl.dashboard --lock-fd N --door-fd N FOLDER: serve the page of the cluster in FOLDER.

Its controller starts it (`launcher.controller.serve.dashboard`), which has opened the port that it gets. It ends when
it is told to, or when nobody wants the page any more.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path

from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.dashboard import ServedPage, ServingProcess
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.system.daemon import own_lock
from dtfctl.launcher.system.files import write_whole
from dtfctl.launcher.system.procfs import identify

LOOK_S = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="dtfctl-dashboard")
    parser.add_argument("--lock-fd", required=True, type=int)
    parser.add_argument("--door-fd", required=True, type=int)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    own_lock(args.lock_fd)
    os.set_inheritable(args.door_fd, False)
    paths = ClusterPaths(args.folder)
    # Before all that takes time: by this it is found, and can be ended.
    _say(paths, serves=False)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    return serve(paths, socket.socket(fileno=args.door_fd))


def serve(paths: ClusterPaths, door: socket.socket) -> int:
    """Serve until SIGTERM, or until the page is not wanted any more."""
    from dtfctl.dashboard.server import Dashboard
    from dtfctl.launcher.api import Cluster

    wanted = paths.dashboard.read_bytes()
    page = codec.decode(ServedPage, wanted)
    # Its controller may have come to its folder in another way.
    os.environ["DTFCTL_HOME"] = str(paths.folder.parents[1])
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    dashboard = Dashboard(
        lambda: Cluster(paths.name), door=door, token=page.token, session=page.session, studies=paths.studies
    )
    dashboard.start()
    _say(paths, serves=True)
    while not over.wait(LOOK_S):
        if not _is_wanted(paths, page):
            break
    dashboard.close()
    return 0


def _say(paths: ClusterPaths, *, serves: bool) -> None:
    me = identify(os.getpid())
    assert me is not None
    said = ServingProcess(me.pid, me.start_ticks, serves)
    write_whole(paths.dashboard_process, codec.encode(said).encode())


def _is_wanted(paths: ClusterPaths, page: ServedPage) -> bool:
    """Tell whether the cluster is still there, and its page with this token."""
    try:
        return paths.info.exists() and codec.decode(ServedPage, paths.dashboard.read_bytes()).token == page.token
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(main())
