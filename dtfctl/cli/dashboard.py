"""The command `dashboard`: a page to look at."""

from __future__ import annotations

import signal
import sys
import threading
import webbrowser
from typing import Annotated, Optional

import typer

from dtfctl.cli._command import Session, command


@command(
    examples=[
        "dtfctl dashboard",
        "dtfctl dashboard --no-browser --port 8899",
        "dtfctl dashboard -c prod -o json",
        "dtfctl dashboard --stop",
    ],
    exits=[0, 2, 4, 7, 8],
)
def dashboard(
    session: Session,
    port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--port", metavar="N", min=0, max=65535, help="The port to open; 0, or none, for a free one."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the page, for all who look at it.")] = False,
) -> int:
    """Show the cluster in a browser: tasks, jobs with plots and logs, graphs, timelines, links, events, studies.

    The controller serves the page, on its machine's loopback only, to your own processes that know the token in its
    address. It stays until --stop or `dtfctl down`; asked again, the command prints the same address. Where the
    controller runs on a host, the command leads there from this machine until Ctrl-C. From another machine: ssh -L
    8899:127.0.0.1:8899, with --port 8899. What the page does (cancel, restart, drain) it does as you. It needs no
    network. `dashboard: {port: N}` in the cluster's file has it up with the cluster.
    """
    screen = session.screen
    cluster = session.open()
    name = cluster.name
    if stop:
        was_open = cluster.close_dashboard()
        if screen.is_data:
            screen.record("Dashboard", {"cluster": name, "url": None})
        else:
            screen.note(f"the dashboard of {name} is ended" if was_open else f"{name} has no dashboard open")
        return 0
    opened = cluster.open_dashboard(port)
    # Whatever ends it: what it has opened goes, too.
    for number in (signal.SIGTERM, signal.SIGHUP) if opened.is_led else ():
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, signal.default_int_handler)
    try:
        if screen.is_data:
            screen.record("Dashboard", {"cluster": name, "url": opened.url})
        else:
            screen.print(opened.url)
            sys.stdout.flush()
            ends = "`down`" if opened.is_kept else "`dtfctl dashboard --stop`, or `down`"
            screen.note(f"shows {name} until {'Ctrl-C' if opened.is_led else ends}")
        if not no_browser and not screen.is_data:
            webbrowser.open(opened.opener().as_uri())
        if opened.is_led:
            # Ended by Ctrl-C.
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    finally:
        opened.close()
    return 0
