"""What `up` shows while hosts come up, at any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dtfctl.cli._bringup import UpHosts
from dtfctl.cli._screen import Screen
from dtfctl.launcher.model import HostStatus


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_a_host_takes_one_line_whatever_there_is_to_say(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = [f"r1g{number:02}.dc1" for number in range(1, 5)]
    lines = UpHosts(Screen(), ["worker/0"])
    long = "installing packages (70 MiB, 40%), and so much more to say that no terminal is wide enough for all of it"
    lines.hosts([HostStatus(name, "pending", tasks=1, stage=long) for name in names])
    shown = io.StringIO()
    Console(file=shown, width=columns).print(lines._picture())
    text = shown.getvalue().splitlines()
    assert len(text) == len(names) + 1
    assert all(name in line and "installing" in line for name, line in zip(names, text, strict=False))
