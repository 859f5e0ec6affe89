"""A job as the one who sends it sees it: submitted, shown while it runs, and how it ended."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer

from dtfctl import guard
from dtfctl.cli import _data, _tables
from dtfctl.cli._command import Session
from dtfctl.cli._format import duration

if TYPE_CHECKING:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.model import JobRequest, JobStatus

FIRST_BEGIN = ": begins at step 0 ("


def send(
    session: Session, cluster: Cluster, request: JobRequest, detach: bool, wait: bool, outlives: bool = True
) -> int:
    """Submit a job and show it to its end; its exit code.

    Args:
        outlives: whether the job goes on where this command is ended.
    """
    screen = session.screen
    job_id = cluster.submit(request, screen.note)
    if detach:
        if screen.is_data:
            screen.data("Job", _data.document(cluster.job(job_id)))
        else:
            screen.print(job_id)
        screen.next(f"dtfctl logs {job_id} -f")
        return 0
    return _follow(session, cluster, job_id, show=not wait, outlives=outlives)


def _follow(session: Session, cluster: Cluster, job_id: str, show: bool, outlives: bool) -> int:
    """Stream a job (`show`: what it writes too) until it ends; its exit code, 130 after Ctrl-C."""
    from dtfctl.cli._output import SourceWriter
    from dtfctl.cli._progress import JobBar
    from dtfctl.launcher.errors import InternalError
    from dtfctl.launcher.model import JobChanged, JobEnded, JobNote, JobOutput, JobProgress

    screen = session.screen
    status = cluster.job(job_id)
    writer = SourceWriter(screen, prefix=len(status.clients) > 1)
    bar = JobBar(screen)
    screen.note(f"{job_id} submitted to {cluster.name}")
    if status.state == "queued":
        place = f", place {status.position}" if status.position else ""
        screen.note(f"{job_id} queued{place}" + (f": {status.reason}" if status.reason else ""))
    bar.update(f"{job_id} {status.state}")
    state: str = status.state
    step, restarts = 0, status.restarts
    reason, has_begun, is_told = status.reason, False, False
    with _cancel_on_interrupt(session, cluster, job_id, outlives) as interrupted:
        for item in cluster.follow_job(job_id):
            match item:
                case JobOutput(line):
                    if not show:
                        continue
                    bar.clear()
                    writer.write(line, sys.stdout if line.stream == "out" else sys.stderr)
                case JobProgress(progress=progress, chief=chief):
                    if chief:
                        if progress.step < step and not is_told:
                            bar.clear()
                            lost = f"{step - progress.step:,} steps are lost"
                            screen.note(f"{job_id} went back from step {step:,} to {progress.step:,}: {lost}")
                        is_told = is_told and progress.step >= step
                        step = progress.step
                        bar.update(f"{job_id} {state}", progress)
                case JobNote(text):
                    if has_begun or FIRST_BEGIN not in text:
                        bar.clear()
                        screen.note(f"{job_id} {text}")
                        is_told = True
                    has_begun = True
                case JobChanged(status):
                    state = status.state
                    writer.set_prefix(len(status.clients) > 1)
                    bar.update(
                        f"{job_id} {state}" + (f": {status.reason}" if state == "running" and status.reason else "")
                    )
                    if state == "queued" and status.reason not in ("", reason):
                        bar.clear()
                        screen.note(f"{job_id} queued: {status.reason}")
                    reason = status.reason
                    if state == "recovering":
                        bar.clear()
                        screen.note(f"{job_id} recovering: {status.reason}")
                        restarts = status.restarts + 1  # of which that was said
                    elif status.restarts > restarts:
                        bar.clear()
                        why = _why_again(cluster, job_id)
                        screen.note(f"{job_id} began again" + (f": {why}" if why else ""))
                        restarts = status.restarts
                case JobEnded(status, lost_output):
                    bar.clear()
                    if lost_output:
                        screen.error(f"no answer from {', '.join(lost_output)}: what was written there last is missing")
                    return _ended(session, status, bool(interrupted))
            if writer.at_line_start:
                bar.draw()
    raise InternalError(f"the stream of {job_id} ended before the job did")


def _why_again(cluster: Cluster, job_id: str) -> str:
    """Say why processes of a job were started again, the newest first."""
    about = {"job.starts-again", "process.ended", "process.failed"}
    found = [event for event in cluster.events() if event.kind in about and event.subject.startswith(f"job:{job_id}")]
    mine = [event for event in found if event.subject.partition(":")[2].partition(":")[0].partition(".")[0] == job_id]
    return max(mine, key=lambda event: event.seq).reason if mine else ""


def _ended(session: Session, status: JobStatus, interrupted: bool) -> int:
    """Say how a job ended and give the command's exit code."""
    from dtfctl.launcher.operator.why import advice_after

    screen = session.screen
    took = duration(status.ended - status.started) if status.ended and status.started else "-"
    words = _tables.progress_words(status.progress)
    if status.state == "succeeded":
        screen.note(f"{status.id} succeeded after {took}" + (f": {words}" if words else ""))
        return 130 if interrupted else 0
    if status.state == "cancelled":
        screen.note(f"{status.id} was cancelled after {took}")
        return 130 if interrupted else status.exit_code or 1
    screen.error(
        f"{status.id} failed after {took}: {status.reason or f'exit code {status.exit_code}'}",
        f"`dtfctl job {status.id}` shows its processes, `dtfctl logs {status.id}` what they wrote.",
    )
    screen.next(advice_after(status, f"dtfctl why {status.id}"))
    return 130 if interrupted else status.exit_code or 1


@contextmanager
def _cancel_on_interrupt(session: Session, cluster: Cluster, job_id: str, outlives: bool) -> Iterator[list[int]]:
    """Let the first Ctrl-C cancel the job in a thread of its own while it lasts, and the second raise.

    A handler that raised at once would break the stream in the middle and lose what the job writes while it stops.
    Gives a list that is not empty after the first Ctrl-C. SIGTERM and SIGHUP end only this command, and say so.
    """
    presses: list[int] = []

    def cancel() -> None:
        from dtfctl.launcher.errors import LauncherError

        try:
            cluster.cancel([job_id])
        except LauncherError as error:
            session.screen.error(f"{job_id} could not be cancelled: {error.message}", error.hint)

    def handle(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        if len(presses) > 1:
            sys.stderr.write(f"\nleaving; {job_id} goes on stopping, `dtfctl job {job_id}` shows it\n")
            raise _LeftError(number)
        sys.stderr.write(f"\ncancelling {job_id}; Ctrl-C again leaves at once\n")
        guard.once(cancel, name="cancel").start()

    def leave(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            goes_on = (
                f"{job_id} goes on. `dtfctl logs {job_id} -f` shows it, `dtfctl cancel {job_id}` stops it"
                if outlives
                else f"{job_id} ends with its cluster"
            )
            sys.stderr.write(f"\n{signal.Signals(number).name}: leaving; {goes_on}\n")
            sys.stderr.flush()
        raise _LeftError(number)

    if threading.current_thread() is not threading.main_thread():
        yield presses
        return
    handlers = {signal.SIGINT: handle, signal.SIGTERM: leave, signal.SIGHUP: leave}
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
        del handlers[signal.SIGHUP]
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield presses
    except _LeftError as left:
        raise typer.Exit(128 + left.number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _LeftError(BaseException):
    """The second Ctrl-C, or a signal that ends this command and not the job."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
