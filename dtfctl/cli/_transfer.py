"""How far a transfer is: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from dtfctl.cli._screen import Screen

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """One bar for all files of a command; `moved` may be called from any thread."""

    def __init__(self, screen: Screen) -> None:
        self._live = screen.is_live
        self._no_color = screen.no_color
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._total = 0

    def moved(self, count: int, total: int | None) -> None:
        """`count` bytes more are there; `total` more bytes are to come, where that was just learnt."""
        if self._progress is None or self._task is None:
            return
        with self._lock:
            if total is not None:
                self._total += total
                self._progress.update(self._task, total=self._total)
            self._progress.advance(self._task, count)

    def __enter__(self) -> Bar:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            self._progress = Progress(
                BarColumn(),
                DownloadColumn(binary_units=True),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True, no_color=self._no_color),
                transient=True,
            )
            self._task = self._progress.add_task("", total=None)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
