"""`submit`: queue a job, stream what it does, return its exit code."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dtfctl import guard
from dtfctl.cli import _complete as complete, _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import duration
from dtfctl.cli._select import seconds, size_in_bytes

if TYPE_CHECKING:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.model import (
        Framework,
        JobRequest,
        JobStatus,
        PackageSource,
        Replication,
        Success,
        TfConfig,
    )

FIRST_BEGIN = ": begins at step 0 ("
CHOICES = {
    "--replication": ("between-graph", "in-graph", "elastic"),
    "--framework": ("dtf", "tensorflow", "torch", "jax", "command"),
    "--success": ("all", "chief"),
    "--tf-config": ("full", "sparse"),
    "--packages": ("auto", "ship", "fetch"),
}


@command(
    examples=[
        "dtfctl submit train.py",
        "dtfctl submit train.py --steps 1000 --lr 0.1",
        "dtfctl submit --name digits --env SEED=7 train.py",
        "dtfctl submit --detach --id nightly-42 train.py",
        "dtfctl submit --resume train-1 --max-time 2h train.py",
        "dtfctl submit --workers 2 --retries 3 train.py",
        "dtfctl submit --working-dir . --requirements requirements.txt train.py",
        "dtfctl submit --as-tensorflow tf1_script.py",
        "dtfctl submit --cpus 2 --memory 4GiB train.py",
        "dtfctl submit --framework torch --python ~/venv/bin/python ddp.py",
        "dtfctl submit --up cluster.yaml train.py",
    ],
    exits=[0, 1, 2, 3, 4, 7, 8],
    pass_through=True,
)
def submit(
    session: Session,
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python script on this machine.")],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="For the script, also where they begin with `-`."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The job's name; the script's by default.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Print the job's id and return.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end without showing what it writes.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show what it writes until the end; the default.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", metavar="K=V", help="A variable; K alone takes your value, unseen by `ps`. May be repeated."
        ),
    ] = None,
    replication: Annotated[
        str,
        typer.Option(
            "--replication",
            metavar="KIND",
            help="between-graph: one process a worker; in-graph: one in all; elastic: one a worker, also for workers "
            "that come later.",
        ),
    ] = "between-graph",
    job_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The job's id; sent again, a script is one job."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Take N free workers instead of all tasks.")
    ] = None,
    min_workers: Annotated[
        int | None,
        typer.Option("--min-workers", min=1, metavar="N", help="torch, jax: with no fewer than N the group goes on."),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="SEL",
            help="Take these: worker/0-3, or worker/0,worker/4.",
            autocompletion=complete.tasks,
        ),
    ] = None,
    cpus: Annotated[
        float | None, typer.Option("--cpus", metavar="N", help="Processors each of its processes may use: 2, 0.5.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Memory of each, or none; as the task beside it by default."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=0, metavar="N", help="GPUs each sees; those of its task by default.")
    ] = None,
    share: Annotated[bool, typer.Option("--share", help="Run on tasks that other jobs with --share have too.")] = False,
    framework: Annotated[
        str,
        typer.Option("--framework", metavar="NAME", help="dtf, tensorflow, torch, jax, or command: any program."),
    ] = "dtf",
    as_tensorflow: Annotated[
        bool, typer.Option("--as-tensorflow", help="`import tensorflow` in the script means dtfctl.runtime.")
    ] = False,
    working_dir: Annotated[
        str | None,
        typer.Option(
            "--working-dir",
            metavar="DIR",
            help="Send this folder, less what .gitignore and .dtfignore name; run in it.",
        ),
    ] = None,
    requirements: Annotated[
        list[str] | None,
        typer.Option(
            "--requirements", "-r", metavar="FILE", help="Packages it needs, or one such as numpy>=2. May be repeated."
        ),
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--extra", metavar="NAMES", help="Packages of dtfctl's extras: examples,fast,image,gpu."),
    ] = None,
    packages: Annotated[
        str,
        typer.Option(
            "--packages", metavar="HOW", help="ship: from this machine; fetch: by the hosts; auto: whichever can be."
        ),
    ] = "auto",
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="PATH", help="The interpreter on the hosts; the file's by default."),
    ] = None,
    tf_config: Annotated[
        str,
        typer.Option("--tf-config", metavar="FORM", help="full, or sparse: a worker knows itself and the ps."),
    ] = "full",
    success: Annotated[
        str | None,
        typer.Option(
            "--success", metavar="WHO", help="Whose exit code 0 is needed: chief (dtf, tensorflow), or all (others)."
        ),
    ] = None,
    exit_code_from: Annotated[
        str | None,
        typer.Option("--exit-code-from", metavar="WHO", help="chief, or worker/1: return its exit code."),
    ] = None,
    retries: Annotated[
        int,
        typer.Option(
            "--retries", min=0, metavar="N", help="Start a failed job again from its newest checkpoint, N times."
        ),
    ] = 0,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="ID", help="Go on from the checkpoints of an earlier job.", autocompletion=complete.job
        ),
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", help="Higher goes first; equals in the order of submission.")
    ] = 0,
    max_time: Annotated[
        str | None, typer.Option("--max-time", metavar="TIME", help="Stop the job when it has run this long.")
    ] = None,
    up: Annotated[
        str | None,
        typer.Option("--up", metavar="FILE", help="Bring this cluster up first; it goes when this command ends."),
    ] = None,
) -> int:
    """Run a script on the cluster; stream what it writes and return its exit code.

    The script's stdout and stderr come out as its own; where several processes write, each line begins with its
    worker. A bar (on a terminal) or a line every five seconds says how far it is. Options of `submit` stand before
    SCRIPT; --name, --detach, --env, --replication and --id are understood after it too. Everything else there belongs
    to the script, and so does all that follows `--`.

    The job gets all workers (chief, evaluator) of the cluster to itself, or what --workers or --tasks say, and waits in
    the queue until they are free; jobs on other tasks run at the same time. See docs/jobs.md.

    Packages that the script needs (--requirements, --extra, or `# /// script` metadata in it) are installed on the
    hosts, once, into environments beside the cluster's Python. Hosts that reach no package index get them from here.

    Ctrl-C cancels the job and waits for its end; a second Ctrl-C leaves at once while it goes on stopping. With
    --detach the job runs in the background: `dtfctl logs ID -f` shows it and `dtfctl cancel ID` stops it. When this
    command is ended otherwise (SIGTERM, a closed terminal, the loss of this machine), the job goes on as well.
    """
    from dtfctl.launcher.errors import UsageError
    from dtfctl.launcher.model import JobRequest

    late, rest = _options_after_script(args or [])
    name, replication = late.name or name, late.replication or replication
    job_id, detach = late.id or job_id, late.detach or detach
    env = [*(env or []), *late.env]
    if as_tensorflow and framework != "dtf":
        raise UsageError(f"--as-tensorflow and --framework {framework} exclude each other", "Give one of them.")
    if as_tensorflow:
        env.append("DTF_AS_TENSORFLOW=1")
    if sum((detach, wait, follow)) > 1:
        raise UsageError("--detach, --wait and --follow exclude each other", "Give one of them.")
    chosen = {"--replication": replication, "--framework": framework, "--success": success, "--tf-config": tf_config}
    chosen["--packages"] = packages
    for option, value in chosen.items():
        if value is not None and value not in CHOICES[option]:
            raise UsageError(f"`{option} {value}` is not known", f"Expected {' or '.join(CHOICES[option])}.")
    request = JobRequest(
        script=script,
        args=tuple(rest),
        name=name,
        env=_environment(env),
        replication=cast("Replication", replication),
        id=job_id,
        framework=cast("Framework", framework),
        retries=retries,
        resume=resume,
        priority=priority,
        max_time_s=None if max_time is None else seconds(max_time, "--max-time"),
        tasks=tasks,
        workers=workers,
        min_workers=min_workers,
        share=share,
        python=python,
        success=cast("Success | None", success),
        exit_code_from=exit_code_from,
        tf_config=cast("TfConfig", tf_config),
        working_dir=working_dir,
        requirements=tuple(requirements or ()),
        extras=tuple(name for names in extra or () for name in names.split(",") if name),
        packages=cast("PackageSource", packages),
        cpus=cpus,
        memory=None if memory is None else size_in_bytes(memory, "--memory"),
        gpus=gpus,
    )
    if up is None:
        return send(session, session.open(), request, detach, wait)
    if detach:
        raise UsageError("--up and --detach exclude each other", "bring the cluster up by itself: dtfctl up FILE")
    with _cluster_of_mine(session, up) as cluster:
        return send(session, cluster, request, detach, wait, outlives=False)


@contextmanager
def _cluster_of_mine(session: Session, file: str) -> Iterator[Cluster]:
    """Bring a cluster up for as long as this process lasts, however that ends."""
    from dtfctl.launcher.errors import Conflict
    from dtfctl.launcher.operator.ephemeral import take_down_after_me
    from dtfctl.launcher.spec import load_spec

    spec = load_spec(file, os.environ, for_up=True)
    if any(info.name == spec.cluster for info in session.api.clusters()):
        raise Conflict(f"{spec.cluster} is up already", "leave `--up` out to use it, or take it down: dtfctl down")
    take_down_after_me(spec.cluster)
    try:
        result = session.api.Cluster.up(spec)
        for problem in result.problems:
            session.screen.error(problem)
        if result.cluster is None or result.exit_code not in (0, 5):
            raise typer.Exit(result.exit_code)
        session.screen.note(f"{spec.cluster} is up: {result.running}/{result.wanted} tasks run")
        yield result.cluster
    finally:
        session.api.Cluster.down_by_name(spec.cluster)


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


@dataclass(slots=True)
class _Late:
    """Options of `submit` given after the script."""

    name: str | None = None
    replication: str | None = None
    id: str | None = None
    detach: bool = False
    env: list[str] = field(default_factory=list)


def _options_after_script(args: list[str]) -> tuple[_Late, list[str]]:
    """Split what follows the script into options of `submit` and the script's own arguments."""
    from dtfctl.launcher.errors import UsageError

    late = _Late()
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            rest += words
            break
        option, equals, value = word.partition("=")
        if word == "--detach":
            late.detach = True
        elif option in ("--name", "--env", "--replication", "--id"):
            if not equals:
                found = next(words, None)
                if found is None:
                    raise UsageError(f"`{option}` needs a value", "Put `--` before options that belong to the script.")
                value = found
            if option == "--env":
                late.env.append(value)
            else:
                setattr(late, option[2:], value)
        else:
            rest.append(word)
    return late, rest


def _environment(pairs: list[str]) -> dict[str, str]:
    from dtfctl.launcher.errors import UsageError

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"`--env {pair}` is not K=V", "For example `--env SEED=7`.")
        if not equals:
            if name not in os.environ:
                raise UsageError(f"`--env {name}`: your environment has no {name}", "Set it, or write `--env K=V`.")
            value = os.environ[name]
        found[name] = value
    return found


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
