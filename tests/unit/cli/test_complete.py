"""The words that a shell offers after `dtfctl`: names of what is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtfctl.cli.app import run
from dtfctl.launcher.errors import ControllerUnreachable
from tests.doubles.launcher import FakeLauncher, status, task
from tests.unit.cli.harness import LOCAL, job

Offered = Callable[..., list[str]]
STATE = status(
    task("ps/0"), task("worker/0"), task("worker/1"), jobs=[job(id="digits-2"), job(id="digits-1", state="failed")]
)


@pytest.fixture
def offered(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Offered:
    monkeypatch.delenv("DTFCTL_CLUSTER", raising=False)
    monkeypatch.setenv("_DTFCTL_COMPLETE", "complete_bash")

    def ask(*words: str, fake: Any = None) -> list[str]:
        """What is offered for the last of `words`."""
        monkeypatch.setenv("COMP_WORDS", " ".join(("dtfctl", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert run((), fake or FakeLauncher(STATE)) == 0
        captured = capfd.readouterr()
        assert captured.err == ""
        return captured.out.split()

    return ask


SELECTORS = ["ps", "worker", "ps/0", "worker/0", "worker/1", "failed", "all"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-c", ""], ["demo"]),
        (["status", "--cluster", "d"], ["demo"]),
        (["connect", ""], ["demo"]),
        (["connect", "--task", "w"], ["worker/0", "worker/1"]),
        (["status", ""], SELECTORS),
        (["restart", "wor"], ["worker", "worker/0", "worker/1"]),
        (["restart", "ps/0", "f"], ["failed"]),
        (["stop", "ps/0,worker/"], ["ps/0,worker/0", "ps/0,worker/1"]),
        (["submit", "--tasks", "worker/"], ["worker/0", "worker/1"]),
        (["submit", "--resume", ""], ["digits-2", "digits-1"]),
        (["job", ""], ["digits-2", "digits-1"]),
        (["cancel", ""], ["digits-2"]),
        (["cancel", "digits-2", ""], []),
        (["logs", ""], [*SELECTORS, "digits-2", "digits-1", "controller"]),
        (["logs", "worker/1", "--job", "d"], ["digits-2", "digits-1"]),
        (["why", "d"], ["digits-2", "digits-1"]),
        (["attach", "ps"], ["ps/0"]),
        (["exec", "ps"], ["ps", "ps/0"]),
        (["top", "ps"], ["ps", "ps/0"]),
        (["ssh", ""], ["localhost", "ps/0", "worker/0", "worker/1"]),
        (["hosts", ""], ["check", "clean", "drain", "undrain", "release"]),
        (["hosts", "drain", ""], ["localhost"]),
        (["hosts", "drain", "localhost", ""], []),
        (["hosts", "check", ""], []),
        (["up", LOCAL, "--only", "p"], ["ps", "ps/0"]),
        (["up", "no-such-file.yaml", "--only", "p"], []),
    ],
)
def test_names_are_offered(offered: Offered, words: list[str], names: list[str]) -> None:
    assert offered(*words) == names


def test_they_are_of_the_cluster_that_was_named(offered: Offered, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["-c", "demo", "job", ""], ["job", "-c", "demo", ""]):
        fake = FakeLauncher(STATE)
        assert offered(*words, fake=fake) == ["digits-2", "digits-1"]
        assert fake.calls == [("names_of", "demo")], "nothing else is asked, and nothing opened"
    assert offered("-c", "other", "job", "", fake=FakeLauncher(STATE)) == []
    monkeypatch.setenv("DTFCTL_CLUSTER", "other")
    assert offered("job", "") == []


def test_what_fails_offers_nothing_and_says_nothing(offered: Offered, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered("status", "", fake=FakeLauncher(STATE, error=ControllerUnreachable("no answer", ""))) == []
    assert offered("status", "", fake=FakeLauncher()) == []


def test_nothing_is_offered_or_made_where_there_is_no_cluster(
    offered: Offered, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dtfctl.launcher import api

    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "home"))
    assert offered("status", "", fake=api) == []
    assert offered("-c", "", fake=api) == []
    assert not (tmp_path / "home").exists()
