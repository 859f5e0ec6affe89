"""The command `tensorboard`: TensorBoard for a job."""

from __future__ import annotations

import signal
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Optional

import typer

from dtfctl import guard
from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import size
from dtfctl.launcher.errors import Conflict, LauncherError
from dtfctl.launcher.paths import ClusterPaths

LOOK_S = 5.0


@command(
    examples=["dtfctl tensorboard train-1", "dtfctl tensorboard train-1 --no-browser --port 6006"],
    exits=[0, 2, 4, 7, 8],
)
def tensorboard(
    session: Session,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Whose.", autocompletion=complete.job)],
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port to open; 0 for a free one.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    to: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--to", metavar="FOLDER", help="Where the files are copied to; below the cluster's by default."),
    ] = None,
) -> int:
    """Show what a job tells TensorBoard, until Ctrl-C; TensorBoard has to be installed on this machine.

    The chief of a job with `framework: dtf` writes event files below its checkpoints: what it reports, steps a second,
    the graph and the times of one step, without a word of the script, and what the script's own `tf.summary` writes
    there. They are copied here as they grow, through the cluster's own connections, to a folder that TensorBoard
    shows; `dtfctl profile JOB --format xplane --to FOLDER` adds a timeline. The port lets in your own processes only.
    """
    from dtfctl.launcher.operator import event_files
    from dtfctl.launcher.operator.tensorboard import TensorBoard, interpreter

    screen = session.screen
    python = interpreter()
    cluster = session.open()
    found = event_files.job_of(cluster.status(), job)
    folder = to or Path(ClusterPaths.of(cluster.name).folder) / "tensorboard" / job
    files = event_files.EventFiles(found, folder, cluster.exec)
    count = files.fetch()
    try:
        board = TensorBoard(python, folder, port)
    except OSError as error:
        raise Conflict(f"the port {port} cannot be opened: {error.strerror}", "choose another with --port") from None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, signal.default_int_handler)
    is_over = threading.Event()
    try:
        board.start()
        if screen.is_data:
            screen.record("TensorBoard", {"job": job, "url": board.url, "folder": str(folder)})
        else:
            screen.print(board.url)
            sys.stdout.flush()
            screen.note(f"shows {job} until Ctrl-C: {size(count)} so far, in {folder}")
        if not no_browser and not screen.is_data:
            webbrowser.open(board.url)

        def follow() -> None:
            while not is_over.wait(LOOK_S):
                try:
                    files.fetch()
                except LauncherError as error:
                    screen.note(f"nothing new: {error.message}")

        guard.once(follow, name="event-files").start()
        code = board.wait()
        raise Conflict(f"TensorBoard has ended with {code}", "start it by hand to see why")
    except KeyboardInterrupt:
        return 0
    finally:
        is_over.set()
        board.close()
