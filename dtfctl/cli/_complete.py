"""The words that a shell offers for names of clusters, tasks, jobs and hosts.

Whoever presses the key waits for them: nothing is started, nobody is logged in to, and what fails offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dtfctl.launcher.operator.completion import Names

STATES = ("failed", "all")
VERBS = ("check", "clean", "drain", "undrain", "release")

Offers = Callable[[typer.Context, str], list[str]]


def _quietly(find: Callable[[typer.Context, str], Iterable[str]]) -> Offers:
    """Words that begin as what was typed; none where anything fails."""

    @wraps(find)
    def offers(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [word for word in find(ctx, incomplete) if word.startswith(incomplete)]
        except Exception:
            return []

    return offers


@_quietly
def cluster(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer the clusters that are up."""
    known: list[str] = _launcher(ctx).cluster_names()
    return known


@_quietly
def task(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer the tasks of the cluster."""
    return _names(ctx).tasks


@_quietly
def tasks(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer what selects tasks; after a comma, what selects more."""
    return _selectors(_names(ctx).tasks, incomplete)


@_quietly
def tasks_of_file(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer what selects tasks of the spec file that stands before."""
    from dtfctl.launcher.spec import load_spec

    # What stands before an option without its value is not told apart yet.
    file = ctx.params.get("file") or ctx.args[0]
    return _selectors(load_spec(file, os.environ).task_names, incomplete)


@_quietly
def job(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer the jobs of the cluster."""
    return _names(ctx).jobs


@_quietly
def active_job(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer the jobs that have not ended and do not stand there yet."""
    given = ctx.params.get("ids") or ()
    return [name for name in _names(ctx).active if name not in given]


@_quietly
def task_or_job(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer tasks and jobs."""
    names = _names(ctx)
    return (*names.tasks, *names.jobs)


@_quietly
def tasks_or_job(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer what selects tasks, jobs, and the controller."""
    names = _names(ctx)
    return (*_selectors(names.tasks, incomplete), *names.jobs, "controller")


@_quietly
def host_or_task(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer hosts and tasks."""
    names = _names(ctx)
    return (*names.hosts, *names.tasks)


@_quietly
def hosts_words(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Offer what `hosts` can do, then the hosts that it can be done to."""
    verb, *given = ctx.params.get("words") or [""]
    if not verb:
        return VERBS
    return [name for name in _names(ctx).hosts if name not in given] if verb in VERBS[2:] else ()


def _launcher(ctx: typer.Context) -> Any:
    launcher = getattr(ctx.find_root().obj, "launcher", None)
    if launcher is None:
        from dtfctl.launcher import api

        launcher = api
    return launcher


def _names(ctx: typer.Context) -> Names:
    """Return the names of the cluster that the words so far are about, as the command will choose it."""
    chosen = ctx.params.get("cluster") or ctx.find_root().params.get("cluster") or os.environ.get("DTFCTL_CLUSTER")
    known: Names = _launcher(ctx).names_of(chosen or None)
    return known


def _selectors(tasks: Iterable[str], incomplete: str) -> list[str]:
    before, comma, _ = incomplete.rpartition(",")
    roles = dict.fromkeys(name.partition("/")[0] for name in tasks)
    return [f"{before}{comma}{word}" for word in (*roles, *tasks, *STATES)]
