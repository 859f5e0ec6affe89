"""A real Ray of three nodes for the tests of this folder; where it is not installed they are skipped, and say so."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.providers import host_base
from dtfctl.launcher.providers.bundle import Bundles, Platform
from tests.cluster.conftest import home
from tests.faults.conftest import measured
from tests.ray.site import Site, python_with_ray
from tests.support.layers import lend_layers

__all__ = ["account", "home", "measured", "python", "site"]


@pytest.fixture(scope="session")
def python() -> str:
    found, missing = python_with_ray()
    if missing:
        pytest.skip(f"a real Ray: {missing}")
    return found


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home that all nodes share, in a folder short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="dtf-ray-", ignore_cleanup_errors=True) as folder:
        made = Path(folder) / "home"
        made.mkdir()
        bundle = Bundles(Path(folder) / "bundles").of(Platform.of_facts(host_base.facts()), fast=True)
        lend_layers(made / ".dtfctl", bundle)
        yield made


@pytest.fixture(scope="module")
def site(python: str, account: Path) -> Iterator[Site]:
    """Three nodes, of two processors each."""
    made = Site(python, account, 3)
    try:
        yield made
    finally:
        made.down()
