"""Values that are taken as they are, are those that Typer would make of them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from dtfctl.cli import _plain
from dtfctl.cli.app import build

LINES = [
    "up f.yaml",
    "up f.yaml --min-ready 3 --only ps --no-wait",
    "-c x status -o json",
    "submit a.py",
    "submit a.py x --y z",
    "submit --env A=1 --env B=2 --retries 2 a.py",
    "jobs -a",
    "cancel",
    "cancel a b",
    "logs",
    "logs job:1 --tail 3",
    "exec all ls -l",
    "ssh h",
    "ssh h a b",
    "get a:b",
    "get a:b d",
    "put a b:c --parallel 3",
    "init",
    "init --ps 2",
    "validate a b",
    "down --delete-logs",
    "scale ps=1 worker=2",
    "top",
    "hosts",
    "connect",
    "restart",
    "restart failed",
    "events --since 10m",
    "why worker/1",
    "submit",
    "exec",
    "up",
    "up f --min-ready x",
    "up f --min-ready 0",
    "put a b:c --parallel 99",
    "init --ps -1",
]


@pytest.fixture(scope="module")
def ours() -> Any:
    return typer.main.get_command(build())


@pytest.fixture(scope="module")
def typers() -> Any:
    """The commands of which each parameter is first looked at while nothing is taken as it is."""
    return typer.main.get_command(build())


def values(root: Any, line: str) -> list[Any]:
    """What a command line comes to: its options and arguments, or why it is refused."""
    try:
        context = root.make_context("dtfctl", line.split())
        name, command, words = root.resolve_command(context, [*context._protected_args, *context.args])
        return [context.params, command.make_context(name, words, parent=context).params]
    except Exception as error:
        return [type(error).__name__, str(error)]


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_means_what_it_means_to_typer(
    line: str, ours: Any, typers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = values(ours, line)
    monkeypatch.setattr(_plain, "_process", lambda parameter, hint: parameter.process_value)
    assert repr(plain) == repr(values(typers, line))


@pytest.mark.slow
@pytest.mark.parametrize("line", ["version", "--version", "jobs", "up no.yaml --timeout 5s", "submit a.py --env A=1 x"])
def test_what_needs_no_conversion_does_not_wait_for_pydantic(line: str, tmp_path: Any) -> None:
    program = "import sys; from dtfctl.cli.app import run; run(sys.argv[1:]); print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program, *line.split()]
    done = subprocess.run(command, capture_output=True, text=True, env={"DTFCTL_HOME": str(tmp_path)}, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "False"
