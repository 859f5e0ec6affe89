"""`submit`: queue a job, show what it does, return its exit code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._select import seconds, size_in_bytes
from dtfctl.cli._send import send

if TYPE_CHECKING:
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.model import (
        Framework,
        PackageSource,
        Replication,
        Success,
        TfConfig,
    )

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
