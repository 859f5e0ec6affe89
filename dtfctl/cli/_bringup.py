"""What `up` shows while hosts are brought up over SSH: on a terminal a line a host with its stage, else plain lines."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from dtfctl.cli._format import STATE_COLORS, plural
from dtfctl.cli._progress import Folded
from dtfctl.cli._screen import Screen
from dtfctl.launcher.model import Event, HostStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_LINES = 24
"""How many hosts may have a line each; with more of them there is one for each stage."""
STAGES = ("pending", "queued", "connecting", "installing", "syncing", "setup", "starting", "up", "failed")
LONGEST_STAGE = max(len(stage) for stage in STAGES)
MARGINS = 6
"""Blanks before and between the columns."""
_COLORS = {"up": "green", "failed": "red", "pending": "dim"}
REFRESH_PER_S = 8


class UpHosts:
    """Stages of hosts and states of tasks. Use it in a `with` statement."""

    def __init__(self, screen: Screen, tasks: Sequence[str]) -> None:
        self._screen = screen
        self._tasks = dict.fromkeys(tasks, "pending")
        self._hosts: list[HostStatus] = []
        self._folded = Folded(screen)
        self._live = None
        if screen.is_live and not screen.is_data:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=sys.stderr, no_color=screen.no_color or None, highlight=False)
            self._live = Live(console=console, auto_refresh=False, refresh_per_second=REFRESH_PER_S)

    def __enter__(self) -> UpHosts:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        self._folded.flush()
        sys.stderr.flush()

    def event(self, event: Event) -> None:
        """Show one event."""
        if event.subject in self._tasks and event.kind.startswith("task."):
            self._tasks[event.subject] = event.kind.removeprefix("task.")
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        elif not self._screen.is_data and not self._screen.quiet:
            self._folded.add(event)

    def hosts(self, hosts: Sequence[HostStatus]) -> None:
        """Show the hosts as they are."""
        self._hosts = [host for host in hosts if host.tasks]
        self._folded.flush()
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    @property
    def first_failed(self) -> str:
        """The first task that has failed, if any; empty: none."""
        return next((name for name, state in self._tasks.items() if state in ("failed", "crashed")), "")

    @property
    def has_unusable(self) -> bool:
        """Whether a host that has tasks cannot be used."""
        return any(host.cause for host in self._hosts)

    def _width(self) -> int:
        return self._live.console.width if self._live is not None else shutil.get_terminal_size().columns

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2), pad_edge=False)
        if len(self._hosts) <= MOST_LINES:
            # One line a host, however narrow: lines that wrap and unwrap would make the picture jump.
            name_width = max((len(host.name) for host in self._hosts), default=0)
            room = self._width() - name_width - LONGEST_STAGE - MARGINS
            for host in self._hosts:
                stage, detail = stage_of(host)
                words = Text(detail, style="dim")
                words.truncate(max(0, room), overflow="ellipsis")
                grid.add_row(f"  {host.name}", Text(stage, style=_COLORS.get(stage, "cyan")), words)
        else:
            counts = Counter(stage_of(host)[0] for host in self._hosts)
            for stage in STAGES:
                if counts[stage]:
                    style = _COLORS.get(stage, "cyan")
                    grid.add_row(Text(f"  {stage}", style=style), plural(counts[stage], "host"))
        states = Counter(self._tasks.values())
        line = Text(f"  {plural(len(self._tasks), 'task')}: ")
        for number, (state, count) in enumerate(states.items()):
            line.append(", " if number else "")
            line.append(f"{count} {state}", style=STATE_COLORS.get(state, "dim"))
        return Group(grid, line)


def stage_of(host: HostStatus) -> tuple[str, str]:
    """Return how far a host has come, and what there is to say about it."""
    if host.cause:
        return "failed", host.last_error + (f" ({host.where})" if host.where else "")
    if host.stage:
        stage, _, detail = host.stage.partition(" ")
        return stage, detail
    return ("up" if host.state == "up" else "pending"), host.last_error
