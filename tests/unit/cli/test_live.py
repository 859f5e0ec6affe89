"""What is drawn on a terminal: the lines of `up`, the bar of a job, and Ctrl-C in the middle."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dtfctl.cli._output import SourceWriter
from dtfctl.cli._progress import JobBar, UpLines
from dtfctl.cli._screen import Screen, wants_color
from dtfctl.cli._tables import progress_words
from dtfctl.cli.app import run
from dtfctl.launcher.model import (
    Event,
    JobEnded,
    JobItem,
    JobOutput,
    JobStatus,
    LogLine,
    Progress,
)
from tests.doubles.launcher import FakeLauncher, status, task


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and what stands on it after the escape codes did their work."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        screen, row, column = [""], 0, 0
        for token in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.getvalue()):
            if token == "\r":
                column = 0
            elif token == "\n":
                row, column = row + 1, 0
                screen += [""] * (row + 1 - len(screen))
            elif token.endswith("A"):
                row -= int(token[2:-1])
            elif token.endswith("K"):
                screen[row] = screen[row][:column]
            elif not token.startswith("\x1b"):
                screen[row] = screen[row][:column].ljust(column) + token + screen[row][column + len(token) :]
                column += len(token)
        return [line.rstrip() for line in screen]


@pytest.fixture
def make_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Call it in the test itself: pytest puts its own stderr in place after the fixtures."""

    def make() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("NO_COLOR", "1")
        return stream

    return make


def test_up_redraws_one_line_a_task(make_terminal: Callable[[], Terminal]) -> None:
    terminal = make_terminal()
    with UpLines(Screen(), ["ps/0", "worker/0"]) as lines:
        lines.event(Event(1, 0.0, "task.starting", "ps/0"))
        lines.event(Event(2, 0.0, "task.running", "ps/0", "127.0.0.1:2222"))
        lines.event(Event(3, 0.0, "task.failed", "worker/0", "exit code 1" + "x" * 100))
    assert terminal.lines == [
        "  ps/0      running     127.0.0.1:2222",
        "  worker/0  failed      exit code 1" + "x" * 46,
        "",
    ]


def test_up_of_many_tasks_is_one_line(make_terminal: Callable[[], Terminal]) -> None:
    terminal = make_terminal()
    with UpLines(Screen(), [f"worker/{i}" for i in range(200)]) as lines:
        for i in range(200):
            lines.event(Event(i, 0.0, "task.starting" if i % 4 else "task.running", f"worker/{i}"))
    assert terminal.lines == ["  200 tasks: 50 running, 150 starting", ""]


class Watched(FakeLauncher):
    """A launcher that is asked for its status twice; then comes Ctrl-C."""

    def note(self, *call: object) -> None:
        super().note(*call)
        if self.calls.count(("status",)) > 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("form", ["table", "json"])
def test_watch_shows_status_again_and_again(
    form: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtfctl.cli._watch.REFRESH_S", 0.0)
    assert run(["status", "-w", "-o", form], Watched(status(task("ps/0")))) == 0
    out = capfd.readouterr().out
    assert out.count("demo is healthy" if form == "table" else '"kind":"ClusterStatus"') == 2
    assert "\x1b" not in out


class WatchedJobs(FakeLauncher):
    """One whose jobs are asked for twice."""

    def note(self, *call: object) -> None:
        super().note(*call)
        if self.calls.count(("jobs",)) > 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("form", ["table", "json"])
def test_jobs_are_watched_too(form: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfctl.cli._watch.REFRESH_S", 0.0)
    assert run(["jobs", "-w", "-o", form], WatchedJobs(status(task("ps/0"), jobs=[JOB]))) == 0
    out = capfd.readouterr().out
    assert out.count("digits-1  running" if form == "table" else '"kind":"JobList"') == 2


def test_watch_on_a_terminal_stays_on_one_screen(
    make_terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtfctl.cli._watch.REFRESH_S", 0.0)
    monkeypatch.setenv("LINES", "10")
    make_terminal()
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    assert run(["status", "-w"], Watched(status(*[task(f"worker/{i}") for i in range(50)]))) == 0
    screens = out.getvalue().split("\x1b[H")[1:]
    assert [screen.count("\n") for screen in screens] == [9, 9]
    assert "... 45 more lines" in screens[1]


def test_the_bar_shows_share_rate_and_time_left(make_terminal: Callable[[], Terminal]) -> None:
    make_terminal()
    now = [0.0]
    bar = JobBar(Screen(), lambda: now[0])
    bar.update("digits-1", Progress(0, 100, {"loss": 2.0}))
    now[0] = 2.0
    bar.update("digits-1", Progress(50, 100, {"loss": 1.0}))
    assert bar.rate == 25.0
    assert bar.line(100) == (
        "digits-1  ━━━━━━━━━━━━━━━···············  step 50/100, loss 1  25 steps/s   50%  2.0s left"
    )
    assert len(bar.line(60)) <= 60
    assert bar.line(None) == "digits-1, step 50/100, loss 1, 25 steps/s (2.0s)"
    bar.update("digits-1", Progress(10, 100, {}))
    assert bar.rate is None, "after going back to a checkpoint the rate is not negative"


def test_metrics_come_in_one_order_wherever_they_are_from() -> None:
    metrics = {"perplexity": 2.0, "accuracy": 0.5, "auc": 0.25, "loss": 0.125}
    assert progress_words(Progress(1, 2, metrics)) == "step 1/2, loss 0.125, accuracy 0.5, auc 0.25, perplexity 2"
    assert progress_words(Progress(1200, None, {})) == "step 1,200"
    assert progress_words(None) == ""


def test_the_bar_gives_way_to_output(make_terminal: Callable[[], Terminal]) -> None:
    terminal = make_terminal()
    now = [1.0]
    bar = JobBar(Screen(), lambda: now[0])
    bar.update("digits-1 running", Progress(1, 0, {}))
    bar.draw()
    assert terminal.lines[-1].startswith("digits-1 running  step 1")
    bar.clear()
    sys.stderr.write("a line\n")
    bar.draw(force=True)
    assert terminal.lines[0] == "a line"
    assert terminal.lines[1].startswith("digits-1 running")


def test_the_bar_is_drawn_at_most_ten_times_a_second(make_terminal: Callable[[], Terminal]) -> None:
    terminal = make_terminal()
    now = [1.0]
    bar = JobBar(Screen(), lambda: now[0])
    bar.update("x", Progress(1, 10, {}))
    for _ in range(50):
        bar.draw()
        now[0] += 0.01
    assert terminal.getvalue().count("\r") <= 6


def test_nothing_is_drawn_with_quiet(make_terminal: Callable[[], Terminal]) -> None:
    terminal = make_terminal()
    with UpLines(Screen(quiet=True), ["ps/0"]) as lines:
        lines.event(Event(1, 0.0, "task.running", "ps/0"))
    JobBar(Screen(quiet=True)).draw()
    assert terminal.getvalue() == ""


def test_an_unfinished_line_is_ended_before_another_process_writes() -> None:
    out = io.StringIO()
    writer = SourceWriter(Screen(), prefix=True)
    writer.write(LogLine("j:worker/0", "out", "50%\r", 1.0, newline=False), out)
    assert not writer.at_line_start
    writer.write(LogLine("j:worker/1", "out", "done", 1.0), out)
    assert writer.at_line_start
    assert out.getvalue() == "worker/0 | 50%\r\nworker/1 | done\n"


@pytest.mark.parametrize(
    ("stream", "environ", "forbidden", "expected"),
    [
        (Terminal(), {"TERM": "xterm"}, False, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, False, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False, False),
        (Terminal(), {"TERM": "dumb"}, False, False),
        (Terminal(), {"TERM": "xterm"}, True, False),
        (io.StringIO(), {"TERM": "xterm"}, False, False),
    ],
)
def test_colour_is_for_terminals(stream: io.StringIO, environ: dict[str, str], forbidden: bool, expected: bool) -> None:
    assert wants_color(stream, environ, forbidden) is expected


JOB = JobStatus("digits-1", "digits", "running", "between-graph", "t.py", started=1.0)


class Interrupted(FakeLauncher):
    """A launcher whose job is interrupted by Ctrl-C while it runs, `presses` times."""

    presses = 1

    def stream(self) -> Iterator[JobItem]:
        cancelled = threading.Event()
        self.on_cancel = cancelled.set
        yield JobOutput(LogLine("digits-1:worker/0", "out", "working", 1.0))
        for _ in range(self.presses):
            os.kill(os.getpid(), signal.SIGINT)
        assert cancelled.wait(60)
        yield JobOutput(LogLine("digits-1:worker/0", "out", "saving", 2.0))
        yield JobEnded(replace(JOB, state="cancelled", ended=3.0))

    def note(self, *call: object) -> None:
        super().note(*call)
        if call[0] == "follow":
            self.items = self.stream()  # type: ignore[assignment]
        if call[0] == "cancel":
            self.on_cancel()


def test_the_first_ctrl_c_cancels_the_job_and_waits_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    fake = Interrupted(status(task("ps/0"), jobs=[JOB]))
    assert run(["submit", "t.py"], fake) == 130
    captured = capfd.readouterr()
    assert captured.out == "working\nsaving\n"
    assert "cancelling digits-1; Ctrl-C again leaves at once" in captured.err
    assert "digits-1 was cancelled after 2.0s" in captured.err
    assert ("cancel", ("digits-1",), 10.0) in fake.calls


def test_the_second_ctrl_c_leaves_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    fake = Interrupted(status(task("ps/0"), jobs=[JOB]))
    fake.presses = 2
    before = signal.getsignal(signal.SIGINT)
    assert run(["submit", "t.py"], fake) == 130
    captured = capfd.readouterr()
    assert captured.out == "working\n"
    assert "leaving; digits-1 goes on stopping" in captured.err
    assert signal.getsignal(signal.SIGINT) is before
