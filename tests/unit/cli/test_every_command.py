"""What holds for every command: help, errors, wrong usage, time limits; and commands about dtfctl itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dtfctl.cli._command import COMMANDS, EXITS
from dtfctl.cli._groups import ORDER
from dtfctl.launcher import errors
from tests.doubles.launcher import FakeLauncher
from tests.unit.cli.harness import HEALTHY, LOCAL, Dtfctl


@pytest.mark.parametrize("name", ORDER)
def test_every_command_has_help_with_examples_and_exit_codes(dtfctl: Dtfctl, name: str) -> None:
    result = dtfctl(name, "--help")
    assert result.code == 0
    assert f"Examples:\n    dtfctl {name}" in result.out
    assert "Exit codes:\n    0    done as asked" in result.out
    assert all(code in EXITS for code in COMMANDS[name].exits)


@pytest.mark.slow
def test_the_examples_in_the_help_name_options_that_exist(dtfctl: Dtfctl) -> None:
    for name, info in COMMANDS.items():
        text = dtfctl(name, "-h").out
        for example in info.examples:
            before_script = example.split(".py")[0] if name == "submit" else example
            for word in before_script.split():
                if word.startswith("-"):
                    assert word in text, (example, word)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("m", "h"), 2),
        (errors.SpecError("m", "h"), 3),
        (errors.ScriptError("m", "h"), 3),
        (errors.NoSuchCluster("m", "h"), 4),
        (errors.PartlyDone("m", "h"), 5),
        (errors.LoginError("m", "h"), 6),
        (errors.Conflict("m", "h"), 7),
        (errors.ControllerUnreachable("m", "h"), 8),
        (errors.DeadlineExpired("m", "h"), 9),
        (errors.NoSpace("m", "h"), 1),
    ],
)
@pytest.mark.parametrize(
    "command", [["status"], ["up", LOCAL], ["down"], ["submit", "x.py"], ["restart", "all"], ["logs"], ["cancel", "x"]]
)
def test_an_error_is_a_message_a_hint_and_its_exit_code(
    dtfctl: Dtfctl, error: errors.LauncherError, code: int, command: list[str]
) -> None:
    result = dtfctl(*command, fake=FakeLauncher(HEALTHY, error=error))
    assert (result.code, result.out, result.err) == (code, "", "error: m\n  h\n")


def test_a_bug_is_a_report_and_125(dtfctl: Dtfctl) -> None:
    result = dtfctl("status", fake=FakeLauncher(HEALTHY, error=RuntimeError("surprise")))
    assert (result.code, result.out) == (125, "")
    assert "error: a bug in dtfctl: RuntimeError: surprise" in result.err
    report = Path(result.err.split("The report is in ")[1].rstrip(".\n"))
    assert "RuntimeError: surprise" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0
    report.unlink()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 0), (["nonsense"], 2), (["status", "--nonsense"], 2), (["up"], 2), (["status", "-o", "xml"], 2), (["-h"], 0)],
)
def test_wrong_usage_exits_2(dtfctl: Dtfctl, arguments: list[str], code: int) -> None:
    assert dtfctl(*arguments).code == code


def test_version(dtfctl: Dtfctl) -> None:
    assert dtfctl("version").out.startswith("dtfctl 0.1.0 (Python 3.")
    assert dtfctl("--version").out == "dtfctl 0.1.0\n"
    assert dtfctl("version", "-o", "json").json["kind"] == "Version"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from dtfctl.cli.main import main; main()' schema | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_what_the_machine_refuses_is_no_bug(dtfctl: Dtfctl) -> None:
    error = NotADirectoryError(20, "Not a directory", "/etc/passwd/clusters")
    result = dtfctl("up", LOCAL, fake=FakeLauncher(error=error))
    assert (result.code, result.err.splitlines()[0]) == (1, "error: not a directory: /etc/passwd/clusters")


def test_a_full_disk_under_stdout_is_said_once() -> None:
    program = [sys.executable, "-c", "from dtfctl.cli.main import main; main()", "schema"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: no space left on device")


INTERRUPTED = """
import dtfctl.cli.app
from dtfctl.cli import main

def run(words):
    try:
        exec("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)")
    except KeyboardInterrupt:
        return 130

dtfctl.cli.app.run = run
main.main()
"""


def test_the_code_of_an_interrupt_does_not_go_by_what_it_interrupted(tmp_path: Path) -> None:
    """Python remembers that an `exec` of text was interrupted, and dies of it at its end: dataclasses are made so."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, env=environ, timeout=60)
    assert done.returncode == 130


def test_the_entry_point_imports_nothing_before_it_handles_ctrl_c() -> None:
    code = "import sys; before = set(sys.modules); import dtfctl.cli.main; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) <= {"__future__", "dtfctl", "dtfctl._version", "dtfctl.cli", "dtfctl.cli.main"}


def test_nothing_heavy_is_imported_for_help_and_version() -> None:
    code = (
        "import sys; from dtfctl.cli.app import run; run(['version']); run(['--help']); run(['submit', '--help']);"
        "heavy = {'grpc', 'numpy', 'yaml', 'asyncssh', 'cryptography', 'google.protobuf'} & set(sys.modules);"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_time_limit_ends_any_command_with_nine(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeLauncher):
        def note(self, *call: Any) -> None:
            super().note(*call)
            if call[0] == "status":
                time.sleep(60)

    slow = Slow(HEALTHY)
    for words in (["status", "--timeout", "100ms"], ["--timeout", "100ms", "status"]):
        result = dtfctl(*words, fake=slow)
        assert result.code == 9
        assert "not done within 0.1 s" in result.err and "goes on" in result.err
    monkeypatch.setenv("DTFCTL_TIMEOUT", "100ms")
    assert dtfctl("status", fake=slow).code == 9
    assert dtfctl("status", "--timeout", "soon", fake=slow).code == 2


def test_a_command_with_a_limit_of_its_own_keeps_to_it(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    dtfctl("restart", "worker", fake=fake)
    dtfctl("--timeout", "2m", "restart", "worker", fake=fake)
    dtfctl("--timeout", "2m", "restart", "worker", "--timeout", "5s", fake=fake)
    dtfctl("restart", "worker", "--no-wait", "--force", "--reset", fake=fake)
    assert [call[2] for call in fake.calls if call[0] == "restart"] == [30.0, 120.0, 5.0, 0.0]


def test_scripts_are_never_asked(dtfctl: Dtfctl) -> None:
    fake = FakeLauncher(HEALTHY)
    assert dtfctl("restart", "all", fake=fake).code == 0
    assert dtfctl("-y", "stop", "all", fake=fake).code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_asks_dtfctl(dtfctl: Dtfctl, shell: str) -> None:
    result = dtfctl("completion", shell)
    assert result.code == 0 and "_DTFCTL_COMPLETE" in result.out
    assert dtfctl("completion", "tcl").code == 2


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "dtfctl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dtfctl "$@"\n')
    program.chmod(0o755)
    asked = """
eval "$(dtfctl completion bash)"
COMP_WORDS=(dtfctl res); COMP_CWORD=1; _dtfctl_completion dtfctl; echo "${COMPREPLY[@]}"
COMP_WORDS=(dtfctl logs --prev); COMP_CWORD=2; _dtfctl_completion dtfctl; echo "${COMPREPLY[@]}"
"""
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.splitlines() == ["restart", "--previous"], done.stderr


def test_dtfctls_own_settings_and_where_each_comes_from(dtfctl: Dtfctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTFCTL_CLUSTER", "lab")
    monkeypatch.setenv("DTFCTL_TIMEOUT", "9s")
    monkeypatch.setenv("DTFCTL_OUTPUT", "yaml")
    found = {row["name"]: (row["value"], row["from"]) for row in dtfctl("config", "-o", "json").json["settings"]}
    assert found["cluster"] == ("lab", "DTFCTL_CLUSTER")
    assert found["output"] == ("json", "--output")
    assert found["timeout"] == ("9s", "DTFCTL_TIMEOUT")
    assert found["quiet"] == ("no", "default")
    monkeypatch.delenv("DTFCTL_OUTPUT")
    assert "cluster   demo" in dtfctl("-c", "demo", "config").out
