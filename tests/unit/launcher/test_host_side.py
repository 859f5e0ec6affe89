"""What the launcher runs on a host, here in this process: bundles that are forgotten, facts, the shell's command."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtfctl.launcher.providers import host_side
from dtfctl.launcher.providers.bundle import Platform
from dtfctl.launcher.providers.conversation import REPLY, SOURCE, bootstrap


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_side, "BASE", str(tmp_path))
    return tmp_path


def make_runtime(base: Path, name: str, packages: str, days: float) -> None:
    """One that was last asked for so long ago."""
    site = base / "runtime" / name / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (base / "runtime" / name / "bin").mkdir()
    (base / "packages" / packages).mkdir(parents=True, exist_ok=True)
    (site / host_side.PATH_FILE).write_text(f"{base / 'packages' / packages}\n")
    then = time.time() - days * 86400
    for path in (base / "runtime" / name, base / "packages" / packages):
        os.utime(path, (then, then))


def left(base: Path) -> dict[str, list[str]]:
    return {kind: sorted(os.listdir(base / kind)) for kind in ("runtime", "packages")}


def test_bundles_that_nobody_asks_for_go(base: Path) -> None:
    make_runtime(base, "old", "old-packages", 20)
    make_runtime(base, "new", "new-packages", 1)
    host_side.forget_unused()
    assert left(base) == {"runtime": ["new"], "packages": ["new-packages"]}


def test_a_bundle_that_something_runs_from_stays_with_its_packages(base: Path) -> None:
    make_runtime(base, "old", "old-packages", 20)
    python = base / "runtime" / "old" / "bin" / "python"
    python.symlink_to(sys.executable)
    words = [python, "-I", "-S", "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()  # its command line is there only some time after `exec`
        host_side.forget_unused()
        assert left(base) == {"runtime": ["old"], "packages": ["old-packages"]}
        assert running.stdin is not None
        running.stdin.close()
    host_side.forget_unused()
    assert left(base) == {"runtime": [], "packages": []}


def test_facts_are_what_the_standard_library_says_of_this_machine(base: Path) -> None:
    known = Platform.of_facts(host_side.facts())
    assert known.full_version == platform.python_version()
    assert known.implementation == platform.python_implementation()
    assert known.machine == platform.machine()
    assert known.libc == (platform.libc_ver()[0] or "musl")


def converse(home: Path, runtimes: tuple[str, ...]) -> list[str]:
    """What comes of the shell's command on a host with this home, the source and one request."""
    source = SOURCE.read_bytes()
    done = subprocess.run(
        ["/bin/sh", "-c", bootstrap(len(source), runtimes)],
        input=source + b'{"do": "look", "cluster": "c", "host": "h"}\n',
        capture_output=True,
        env={"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
    )
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("is_there", [True, False])
def test_dtfctls_own_python_answers_where_it_is_there_and_any_other_where_not(tmp_path: Path, is_there: bool) -> None:
    program = tmp_path / ".dtfctl" / "runtime" / "abc" / "bin" / "python"
    if is_there:
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\ntouch {tmp_path}/used\nexec {sys.executable} "$@"\n')
        program.chmod(0o700)
    hello, answer = converse(tmp_path, ("none-such", "abc"))
    assert hello.startswith(REPLY + '{"hello": 1')
    assert '"facts"' in answer
    assert (tmp_path / "used").exists() == is_there


def test_a_process_can_show_another_name(tmp_path: Path) -> None:
    code = f"from dtfctl.launcher.agent.fork import show_as; show_as(['agent', '--cluster', 'x']){' ' * 500}"
    code += "; print(open('/proc/self/cmdline').read())"
    shown = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.rstrip("\0\n") == "agent\0--cluster\0x"
