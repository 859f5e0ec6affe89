"""The order in which hosts are cleaned."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.operator import clean_hosts
from dtfctl.launcher.spec.model import ClusterSpec, Host, HostGroup, HostName, TaskGroup


def test_no_host_is_cleaned_before_the_controllers_of_all_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path))
    done: list[tuple[str, str]] = []

    async def ask(_logins: object, _bundles: object, host: Host, _: object, request: Any) -> clean_hosts.HostCleaned:
        for _ in range(5 if host.name == "b" else 1):  # b is slow
            await asyncio.sleep(0)
        done.append((request["do"], host.name))
        return clean_hosts.HostCleaned(host.name, "unreachable" if host.name == "c" else "", ended=1)

    monkeypatch.setattr(clean_hosts, "_one", ask)
    names = tuple(HostName(name) for name in "abc")
    spec = ClusterSpec("t", {"ps": TaskGroup(3)}, host_groups={"all": HostGroup(names)})
    found = clean_hosts.clean_hosts(spec)
    assert [what for what, _ in done] == ["end_controllers"] * 3 + ["clean_all"] * 2
    assert {name for what, name in done if what == "clean_all"} == {"a", "b"}, "what could not be looked at is left"
    assert [(host.cause, host.ended) for host in found] == [("", 2), ("", 2), ("unreachable", 1)]
