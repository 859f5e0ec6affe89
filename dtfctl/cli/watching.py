"""Commands that look a cluster over: `top`, `doctor`, `metrics`."""

from __future__ import annotations

import sys
import time
from importlib import resources
from typing import Annotated

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._data import plain
from dtfctl.cli._format import plural
from dtfctl.launcher.errors import UsageError


@command(
    examples=[
        "dtfctl metrics",
        "dtfctl metrics | grep restarts",
        "dtfctl metrics --scrape-config >> prometheus.yml",
        "dtfctl metrics --grafana > dashboard.json",
    ],
    exits=[0, 2, 4, 7, 8],
)
def metrics(
    session: Session,
    scrape: Annotated[
        bool, typer.Option("--scrape-config", help="Print what a Prometheus on this machine needs to read it.")
    ] = False,
    grafana: Annotated[
        bool, typer.Option("--grafana", help="Print a dashboard for Grafana to import; it needs no cluster.")
    ] = False,
) -> None:
    """Print the cluster's metrics page as Prometheus reads it; the spec's `metrics: {port: N}` opens it.

    The page is HTTPS and answers only who has the certificate that `--scrape-config` names.
    """
    screen = session.screen
    if grafana:
        if scrape:
            raise UsageError("one of --scrape-config and --grafana")
        sys.stdout.write(resources.files("dtfctl.cli").joinpath("grafana.json").read_text())
        return
    cluster = session.open()
    if scrape:
        entry = cluster.scrape_config()
        if screen.output == "json":
            screen.data("ScrapeConfig", entry)
            return
        import yaml

        sys.stdout.write(yaml.safe_dump([entry], sort_keys=False))
        return
    text = cluster.metrics()
    if screen.is_data:
        screen.data("Metrics", {"cluster": cluster.name, "text": text})
    else:
        sys.stdout.write(text)


@command(
    examples=["dtfctl doctor", "dtfctl doctor -o wide", "dtfctl doctor --links", "dtfctl doctor -o json"],
    exits=[0, 1, 4, 8],
)
def doctor(
    session: Session,
    links: Annotated[
        bool, typer.Option("--links", help="Measure the links between all hosts instead, and keep what was found.")
    ] = False,
) -> int:
    """Look for what may be wrong: versions, clocks, keys, certificates, ports, disks, limits, Python.

    Looks at this machine, and at the cluster and all its hosts where one is up. Each finding says what to do. -o wide
    shows what is well, too. The exit code is 1 when something is broken, 0 with warnings only.

    --links takes a second for each pair of a host's, both ways: the round trip of a small call, and what one encrypted
    connection carries. `status -o wide` shows it from then on. One that is much worse than before is an event.
    """
    if links:
        return _links(session)
    from dtfctl.launcher.errors import NoSuchCluster
    from dtfctl.launcher.operator import doctor as looks

    screen = session.screen
    found = looks.look_here()
    name = ""
    try:
        cluster = session.open()
    except NoSuchCluster:
        if session.cluster_name:
            raise
    else:
        name = cluster.name
        found += cluster.examine()
    errors = sum(item.level == "error" for item in found)
    warnings = sum(item.level == "warning" for item in found)
    if screen.is_data:
        content = {"cluster": name, "errors": errors, "warnings": warnings, "findings": [plain(item) for item in found]}
        screen.data("Diagnosis", content)
        return 1 if errors else 0
    where = f"{name} and this machine" if name else "this machine (no cluster is up)"
    if errors or warnings:
        screen.print(f"{where}: {plural(errors, 'error')}, {plural(warnings, 'warning')}")
    else:
        screen.print(f"{where}: all is well, {plural(len(found), 'check')}")
    colors = {"error": "red", "warning": "yellow", "ok": "green"}
    for item in found:
        if item.level == "ok" and screen.output != "wide":
            continue
        screen.print(f"{screen.style(item.level.ljust(7), colors[item.level])}  {item.subject}: {item.message}")
        if item.advice:
            screen.print(f"         {item.advice}")
    return 1 if errors else 0


def _links(session: Session) -> int:
    """Measure the links between hosts, and show them."""
    from dtfctl.cli._tables import link_table

    screen = session.screen
    found = session.open().measure_links()
    failed = any(link.problem for link in found)
    if screen.is_data:
        screen.data("Links", {"links": [plain(link) for link in found]})
        return 1 if failed else 0
    if not found:
        screen.print("no two hosts are up: there is no link to measure")
        return 0
    for line in link_table(found, screen, time.time()):
        screen.print(line)
    for link in found:
        if link.problem:
            screen.print(f"{screen.style('error', 'red')}  {link.source} to {link.target}: {link.problem}")
    return 1 if failed else 0


@command(examples=["dtfctl top", "dtfctl top worker", "dtfctl top -o json | jq .tasks"], exits=[0, 4, 8])
def top(
    session: Session,
    selector: Annotated[
        str, typer.Argument(metavar="[SEL]", help="Which tasks: worker, ps, host:NAME.", autocompletion=complete.tasks)
    ] = "all",
) -> int:
    """Show what every task, host and job does now: steps a second, processor, memory, beats, GPUs, queue.

    On a terminal it is renewed every second until Ctrl-C or q. Elsewhere it is printed once, as soon as the rates are
    known.
    """
    from dtfctl.cli._top import Sampler, run

    screen = session.screen
    sampler = Sampler(session.open(), selector)
    if sys.stdout.isatty() and not screen.is_data:
        return run(screen, sampler)
    picture = sampler.take_with_rates()
    if screen.is_data:
        screen.data("Top", plain(picture))
        return 0
    for line in picture.lines(screen):
        screen.print(line)
    return 0
