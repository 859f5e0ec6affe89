"""What units of an agent share, without an agent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.identity.keyring import Keyring


@pytest.fixture
def folder() -> Iterator[Path]:
    """An agent's, with a short path: sockets lie in it."""
    home = Path(tempfile.mkdtemp(prefix="units"))
    found = home / "clusters" / "c" / "hosts" / "a"
    found.mkdir(parents=True)
    yield found
    shutil.rmtree(home)


@pytest.fixture
def state(folder: Path) -> Iterator[HostUnits]:
    keyring = Keyring("a", folder / "certificates", folder)
    found = HostUnits("a", folder, folder / "logs", keyring, "127.0.0.1", folder, lambda: None)
    yield found
    found.preparations.close()
    found.socket.close()
