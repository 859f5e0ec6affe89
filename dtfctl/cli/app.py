"""Assembles the commands and runs one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import typer

from dtfctl._version import VERSION
from dtfctl.cli import (
    about,
    certificates,
    checking,
    checkpoints,
    clusters,
    connect,
    dashboard,
    export,
    files,
    graph,
    hosts,
    jobs,
    profile,
    remote,
    scale,
    serve,
    simulate,
    streams,
    submit,
    tasks,
    tensorboard,
    torchrun,
    tune,
    watching,
)
from dtfctl.cli._command import (
    ClusterOption,
    Launcher,
    NoColorOption,
    OutputOption,
    QuietOption,
    Root,
    TimeoutOption,
    VerboseOption,
    YesOption,
    register_all,
    report_bug,
)
from dtfctl.cli._plain import PlainGroup

MODULES = (
    clusters,
    tasks,
    scale,
    connect,
    submit,
    torchrun,
    serve,
    tune,
    jobs,
    streams,
    remote,
    watching,
    dashboard,
    profile,
    graph,
    tensorboard,
    simulate,
    files,
    export,
    hosts,
    certificates,
    checking,
    checkpoints,
    about,
)
"""The modules whose commands exist; importing them declares the commands."""

HELP = """Start clusters of TensorFlow-style ps and worker tasks, keep them healthy, and run jobs on them.

\b
Examples:
  dtfctl init                        write a starter cluster.yaml
  dtfctl up cluster.yaml             start it
  dtfctl submit train.py --steps 99  run a script on it
  dtfctl status                      look at it
  dtfctl restart failed              repair it
  dtfctl down                        stop it

Options such as -c and -o may stand before or after the command. Data goes to stdout, all else to stderr.
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dtfctl {VERSION}")
        raise typer.Exit(0)


def build() -> typer.Typer:
    """Build the Typer application with every command."""
    app = typer.Typer(
        name="dtfctl",
        cls=PlainGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )

    @app.callback(help=HELP)
    def root(
        ctx: typer.Context,
        cluster: ClusterOption = None,
        output: OutputOption = None,
        quiet: QuietOption = False,
        verbose: VerboseOption = False,
        no_color: NoColorOption = False,
        timeout: TimeoutOption = None,
        yes: YesOption = False,
        version: bool = typer.Option(
            False, "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ) -> None:
        found = ctx.find_object(Root) or Root()
        found.options = {
            "cluster": cluster,
            "output": output,
            "quiet": quiet,
            "verbose": verbose,
            "no_color": no_color,
            "timeout": timeout,
            "yes": yes,
        }
        ctx.obj = found

    register_all(app)
    return app


@cache
def _entry() -> Any:
    """Make what command lines are given to; once a process."""
    return typer.main.get_command(build())


def run(arguments: Sequence[str], launcher: Launcher | None = None) -> int:
    """Run one command line and give its exit code. `launcher` stands in for the real one."""
    try:
        _entry()(args=list(arguments) or ["--help"], prog_name="dtfctl", obj=Root(launcher))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return report_bug(error)
    return 0
