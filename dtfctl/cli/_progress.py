"""Live lines on stderr: tasks coming up, a job's bar. On anything but a terminal, plain lines now and then."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from dtfctl.cli import _tables
from dtfctl.cli._format import STATE_COLORS, duration, number, plural
from dtfctl.cli._screen import Screen
from dtfctl.launcher.model import Event, HostStatus, Progress

PLAIN_EVERY_S = 5.0
FOLDED_FROM = 3
"""How many lines that say the same of different hosts or tasks become one."""
REDRAW_EVERY_S = 0.1
_RATE_WINDOW_S = 3.0
_MAX_TASK_LINES = 16


class UpLines:
    """What `up` shows: on a terminal one line a task that changes in place, else a line for each event."""

    def __init__(self, screen: Screen, tasks: Sequence[str]) -> None:
        self._screen = screen
        self._states = dict.fromkeys(tasks, "pending")
        self._reasons: dict[str, str] = {}
        self._drawn = 0
        self._folded = Folded(screen)

    def __enter__(self) -> UpLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folded.flush()
        sys.stderr.flush()

    def event(self, event: Event) -> None:
        """Show one event."""
        if self._screen.is_data or self._screen.quiet:
            return
        if event.subject in self._states and event.kind.startswith("task."):
            self._states[event.subject] = event.kind.removeprefix("task.")
            self._reasons[event.subject] = event.reason
        if self._screen.is_live:
            self._draw(self._lines() if len(self._states) <= _MAX_TASK_LINES else [self._summary()])
        else:
            self._folded.add(event)

    def hosts(self, _hosts: Sequence[HostStatus]) -> None:
        """Look at the hosts: what came with the last look is said."""
        self._folded.flush()

    @property
    def first_failed(self) -> str:
        """The first task that has failed, if any; empty: none."""
        return next((name for name, state in self._states.items() if state in ("failed", "crashed")), "")

    def _lines(self) -> list[str]:
        """Return one line a task: its name, state and the reason of its last change."""
        width = max(len(name) for name in self._states)
        room = max(0, shutil.get_terminal_size().columns - width - 15)
        return [
            f"  {name.ljust(width)}  {self._paint(state.ljust(10), state)}  {self._reasons.get(name, '')[:room]}"
            for name, state in self._states.items()
        ]

    def _summary(self) -> str:
        """Return all tasks on one line: how many are in each state, as they come up."""
        counts: dict[str, int] = {}
        for state in self._states.values():
            counts[state] = counts.get(state, 0) + 1
        words = ", ".join(f"{count} {self._paint(state, state)}" for state, count in counts.items())
        return f"  {len(self._states)} tasks: {words}"

    def _paint(self, text: str, state: str) -> str:
        return self._screen.style(text, STATE_COLORS.get(state, "dim"), sys.stderr)

    def _draw(self, lines: Sequence[str]) -> None:
        """Replace what was drawn before."""
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        sys.stderr.write(up + "".join(f"\r{line}\x1b[K\n" for line in lines))
        sys.stderr.flush()
        self._drawn = len(lines)


def event_words(event: Event) -> str:
    """`worker/0: failed (exit code 1)`"""
    word = event.kind.rpartition(".")[2]
    return f"  {event.subject}: {word}" + (f" ({event.reason})" if event.reason else "")


class Folded:
    """Plain lines of events, where several that say the same are one line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._events: dict[tuple[str, str, str], list[Event]] = {}

    def add(self, event: Event) -> None:
        """Keep an event until `flush`."""
        noun = "host" if event.subject.startswith("host:") else "task" if "/" in event.subject else event.subject
        alike = re.sub(r"[0-9]+", "", event.reason.partition(" from ")[0])
        self._events.setdefault((noun, event.kind, alike), []).append(event)

    def flush(self) -> None:
        """Say what has come since."""
        found, self._events = self._events, {}
        for (noun, kind, _), events in found.items():
            subjects = list(dict.fromkeys(event.subject for event in events))
            if len(subjects) < FOLDED_FROM:
                for event in events:
                    self._screen.note(event_words(event))
                continue
            reasons = {event.reason.partition(" from ")[0] for event in events}
            reason = reasons.pop() if len(reasons) == 1 else ""
            words = f"  {plural(len(subjects), noun)}: {kind.rpartition('.')[2]}"
            self._screen.note(words + (f" ({reason})" if reason else ""))


class JobBar:
    """How far a job is: a bar on a terminal, a plain line every few seconds elsewhere.

    The bar is the last line of the terminal. `clear` takes it away so that output can be written, `draw` puts it back.
    """

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = screen
        self._clock = clock
        self._label = ""
        self._progress: Progress | None = None
        self._points: deque[tuple[float, int]] = deque()
        self._started = clock()
        self._shown = False
        self._drawn_at = 0.0
        self._said_at = clock()

    def update(self, label: str, progress: Progress | None = None) -> None:
        """Take in news of the job; `label` says what and in which state it is."""
        self._label = label
        if progress is None:
            return
        self._progress = progress
        now = self._clock()
        if self._points and progress.step < self._points[-1][1]:
            self._points.clear()  # it went back to a checkpoint
        self._points.append((now, progress.step))
        while len(self._points) > 2 and self._points[0][0] < now - _RATE_WINDOW_S:
            self._points.popleft()

    @property
    def rate(self) -> float | None:
        """Steps per second over the last seconds, None before it is known."""
        if len(self._points) < 2:
            return None
        (start, first), (end, last) = self._points[0], self._points[-1]
        return (last - first) / (end - start) if end > start else None

    def clear(self) -> None:
        """Take the bar away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False

    def draw(self, force: bool = False) -> None:
        """Show how far it is, at most ten times a second on a terminal and every five seconds elsewhere."""
        now = self._clock()
        if self._screen.is_live:
            if force or now - self._drawn_at >= REDRAW_EVERY_S:
                width = shutil.get_terminal_size().columns
                sys.stderr.write("\r" + self.line(width - 1) + "\x1b[K")
                sys.stderr.flush()
                self._shown, self._drawn_at = True, now
        elif self._progress is not None and now - self._said_at >= PLAIN_EVERY_S:
            self._screen.note(self.line(None))
            self._said_at = now

    def line(self, width: int | None) -> str:
        """Draw the bar in at most `width` characters; None for a plain line without a bar."""
        parts = [self._label]
        progress = self._progress
        if progress is not None:
            parts.append(_tables.progress_words(progress))
        rate = self.rate
        if rate is not None:
            parts.append(f"{number(round(rate, 1))} steps/s")
        text = "  ".join(parts)
        if width is None:
            return ", ".join(parts) + f" ({duration(self._clock() - self._started)})"
        if progress is not None and progress.total:
            share = min(1.0, max(0.0, progress.step / progress.total))
            left = f"  {share * 100:3.0f}%"
            if rate and progress.total > progress.step:
                left += f"  {duration((progress.total - progress.step) / rate)} left"
            room = width - len(text) - len(left) - 4
            if room >= 8:
                size = min(30, room)
                filled = round(share * size)
                bar = "━" * filled + " " * (size - filled)
                bar = self._screen.style("━" * filled, "green", sys.stderr) + "·" * (size - filled)
                return f"{parts[0]}  {bar}  " + "  ".join(parts[1:]) + left
        return text[:width]
