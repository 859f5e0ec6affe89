"""The command `dashboard`: a page to look at."""

from __future__ import annotations

import contextlib
import html
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from dtfctl.cli._command import Session, command
from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.paths import ClusterPaths


@command(
    examples=["dtfctl dashboard", "dtfctl dashboard --no-browser --port 8899", "dtfctl dashboard -c prod -o json"],
    exits=[0, 2, 4, 7, 8],
)
def dashboard(
    session: Session,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port to open; 0 for a free one.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> int:
    """Show the cluster in a browser: tasks, jobs with plots and logs, graphs, timelines, links, events, studies.

    Prints the page's address as the first line, and serves it until Ctrl-C, on this machine's loopback only, to your
    own processes that know the token in it. From another machine: ssh -L 8899:127.0.0.1:8899, with --port 8899. What
    the page does (cancel, restart, drain) it does as you. It needs no network.
    """
    from dtfctl.dashboard.server import Dashboard

    screen = session.screen
    cluster = session.open()
    api, name = session.api, cluster.name
    try:
        page = Dashboard(lambda: api.Cluster(name), port, ClusterPaths.of(name).studies)
    except OSError as error:
        raise Conflict(f"the port {port} cannot be opened: {error.strerror}", "choose another with --port") from None
    # Whatever ends it: the file by which a browser is opened goes, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, signal.default_int_handler)
    page.start()
    try:
        if screen.is_data:
            screen.record("Dashboard", {"cluster": name, "url": page.url})
        else:
            screen.print(page.url)
            sys.stdout.flush()
            screen.note(f"shows {name} until Ctrl-C")
        with contextlib.nullcontext() if no_browser or screen.is_data else _opened(page.url, name):
            # Ended by Ctrl-C.
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    finally:
        page.close()
    return 0


@contextlib.contextmanager
def _opened(url: str, cluster: str) -> Iterator[None]:
    """Open a browser by a file that only this user can read: what stands on a command line everybody can."""
    file = Path(ClusterPaths.of(cluster).folder) / f"dashboard-{os.getpid()}.html"
    address = html.escape(url, quote=True)
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">dtfctl</a>'
            )
        webbrowser.open(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)
