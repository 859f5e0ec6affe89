"""A real Slurm of four nodes for the tests of this folder; where it is not installed they are skipped, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.providers import host_base
from dtfctl.launcher.providers.bundle import Bundles, Platform
from tests.cluster.conftest import home
from tests.faults.conftest import measured
from tests.slurm.site import Site, why_not
from tests.support.layers import lend_layers

__all__ = ["home", "measured", "on_login_node", "site"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Four nodes, of two processors each."""
    problem = why_not()
    if problem:
        pytest.skip(f"a real Slurm {problem}")
    made = Site(tmp_path_factory.mktemp("slurm"), 4)
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture(autouse=True)
def on_login_node(
    site: Site, home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Whoever runs a test has logged in, has a home that all nodes share, and leaves no job."""
    homes = {site.home_of(name) for name in site.names}
    if not all((folder / ".dtfctl").exists() for folder in homes):
        bundle = Bundles(site.folder / "bundles").of(Platform.of_facts(host_base.facts()), fast=True)
        for folder in homes:
            lend_layers(folder / ".dtfctl", bundle)
    monkeypatch.setenv("HOME", str(site.account))
    monkeypatch.setenv("SLURM_CONF", str(site.conf))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    yield
    for job in site.jobs():
        site.ask("scancel", job)
