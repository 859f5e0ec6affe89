"""`tune`: a search for good settings of a script, each trial a job."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dtfctl.cli._command import Session, command
from dtfctl.cli._screen import Screen

if TYPE_CHECKING:
    from dtfctl.tune.report import Live

LINE_S = 5.0


@command(
    examples=[
        "dtfctl tune space.yaml train.py",
        "dtfctl tune --folder studies/lr space.yaml train.py --dataset digits",
        "dtfctl tune -o json space.yaml train.py",
    ],
    exits=[0, 1, 2, 3, 4, 7, 8],
    pass_through=True,
)
def tune(
    session: Session,
    space: Annotated[str, typer.Argument(metavar="SPACE", help="The file that says what is searched: docs/tuning.md.")],
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python script on this machine.")],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="For the script, before the settings of a trial."),
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option("--folder", metavar="DIR", help="Where the study is kept; SPACE's name with .study by default."),
    ] = None,
) -> int:
    """Search for good settings of a script; each trial is a job, those that promise go on from their checkpoints.

    The script gets its settings as options (`--lr 0.01 --steps 300`), and tells its score as progress. Trials share the
    tasks of the cluster, side by side. Ctrl-C cancels what runs; the same command again goes on with the study, and so
    it does when this process, the controller or a host has died.

    The folder has the study's records, a page with plots (study.html), and event files for TensorBoard. Exit code 1: no
    trial has a score.
    """
    from dtfctl.launcher.errors import UsageError
    from dtfctl.tune import report
    from dtfctl.tune.search import Program, Search
    from dtfctl.tune.space import load

    screen = session.screen
    study = load(space)
    if study.framework != "command" and not Path(script).is_file():
        raise UsageError(f"there is no script {script}", "check the path")
    place = Path(folder) if folder is not None else Path(Path(space).stem + ".study")
    name = "".join(c if c.isalnum() else "-" for c in Path(script).stem.lower()).strip("-")[:24]
    cluster = session.open()
    words = tuple(args or ())
    # As with `submit`, what stands behind `--` is the script's.
    program = Program(script, words[1:] if words[:1] == ("--",) else words, name)
    search = Search(cluster, study, program, place)
    live = report.Live(search)
    shown = _Shown(screen, live)
    title = f"{Path(space).stem}: {Path(script).name}"
    told = report.Published(search, cluster.show_study, title, place)

    def tell() -> None:
        shown.show()
        told.renew()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        search.run(tell)
    except KeyboardInterrupt:
        search.stop()
        search.cancel_running()
        search.over = "interrupted"
        screen.note(f"interrupted: the same command goes on with the study in {place}")
    finally:
        shown.end()
        report.write(search, place, title)
        told.renew(last=True)
        search.close()
    best = search.best
    if screen.is_data:
        screen.data("Study", {"cluster": cluster.name, "folder": str(place.absolute()), **report.document(search)})
    elif best is not None:
        leg = search.records.legs[best.key]
        screen.print(f"{search.over}; best is trial {leg.trial}: {study.metric} {best.score:.6g}")
        for setting, found in leg.settings.items():
            screen.print(f"  {setting}: {found}")
        screen.next(f"open {place / report.PAGE}")
    if search.over == "interrupted":
        return 130
    return 0 if best is not None else 1


class _Shown:
    """What is shown meanwhile: on a terminal a table in its place, else a line now and then."""

    def __init__(self, screen: Screen, live: Live) -> None:
        self._screen = screen
        self._live = live
        self._height = 0
        self._said_at = 0.0

    def show(self) -> None:
        if not self._screen.is_live:
            if time.monotonic() - self._said_at >= LINE_S:
                self._said_at = time.monotonic()
                self._screen.note(self._live.summary())
            return
        size = shutil.get_terminal_size()
        lines = [line[: size.columns - 1] for line in self._live.lines()[: size.lines - 2]]
        up = f"\x1b[{self._height}A" if self._height else ""
        sys.stderr.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stderr.flush()
        self._height = len(lines)

    def end(self) -> None:
        """Say how it ended."""
        if self._height:
            self.show()
        else:
            self._screen.note(self._live.summary())
