"""The skeleton of a provider in docs/providers.md brings up an agent, finds it again and ends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.identity.certificates import ensure_authority
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers import host_base
from dtfctl.launcher.providers.bundle import Bundles, Platform
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.net.address import answers
from tests.support.layers import lend_layers

DOCS = Path(__file__).parents[4] / "docs" / "providers.md"


@pytest.mark.slow
def test_the_skeleton_of_the_docs_is_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(text, str(DOCS), "exec"), made)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DTFCTL_HOME", str(tmp_path / "own"))
    bundle = Bundles(tmp_path / "own" / "bundles").of(Platform.of_facts(host_base.facts()), fast=True)
    lend_layers(tmp_path / ".dtfctl", bundle)
    paths = ClusterPaths.of("mine")
    ensure_authority(paths.certificates, "mine")
    provider = made["MyProvider"](paths)
    grants: list[Any] = []
    provider.on_grant = grants.append
    try:
        provider.configure(parse_spec("cluster: mine\nhosts: [a]\ntasks: {worker: 1}\n"))
        assert provider.find_agent("a") is None
        endpoint = provider.start_agent("a")
        assert answers(endpoint.address, 5.0)
        assert provider.find_agent("a") == endpoint
        assert [grant.what for grant in grants] == ["My job 17"]
        assert provider.kill_agent("a")
        assert provider.wait_ended("a", 10.0)
        assert provider.find_agent("a") is None
        provider.clean("a")
        assert not provider.may_run("a")
    finally:
        provider.close()
