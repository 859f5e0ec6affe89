"""A lab of real sshd hosts in network namespaces; without root these tests are skipped, and say so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, Ssh, TaskGroup
from tests.cluster.conftest import home
from tests.lab.netns import Lab, why_not

__all__ = ["cluster_of", "home", "lab", "make_lab", "ssh_of"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session", autouse=True)
def own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The settings for SSH of who runs the tests are not the tests'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        yield


@pytest.fixture(scope="module")
def make_lab() -> Iterator[Callable[[int], Lab]]:
    """Makes the module's lab of so many hosts; it is gone after the module."""
    problem = why_not()
    if problem:
        pytest.skip(f"the lab of SSH hosts {problem}")
    made: list[Lab] = []

    def make(count: int) -> Lab:
        lab = Lab.of_environment()
        if lab.root.exists():
            lab.down()  # of a module whose time was over while it tidied up
        made.append(lab)
        lab.up(count)
        lab.lend_packages()
        return lab

    yield make
    for lab in made:
        lab.down()


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    """Three hosts."""
    return make_lab(3)


def ssh_of(lab: Lab, **changes: Any) -> Ssh:
    """How one logs in to the lab."""
    return Ssh(**{"user": "root", "key": str(lab.key), "known_hosts": str(lab.known_hosts), "timeout": 20.0, **changes})


def cluster_of(
    lab: Lab,
    ps: int = 1,
    worker: int = 2,
    *,
    hosts: Sequence[str] = (),
    name: str = "t",
    slots: int | None = None,
    **changes: Any,
) -> ClusterSpec:
    """A spec on the lab's hosts (or those of `hosts`, by name), one task a host while they last."""
    aliases: Sequence[str] = changes.pop("aliases", ())
    names = tuple(HostName(name) for name in aliases or map(lab.address_of, hosts or lab.names))
    return ClusterSpec(
        name,
        changes.pop("tasks", {"ps": TaskGroup(ps), "worker": TaskGroup(worker)}),
        host_groups=changes.pop("host_groups", {"all": HostGroup(names, slots=slots)}),
        ssh=changes.pop("ssh", ssh_of(lab)),
        # The hosts see this checkout, and a Python with what the examples need.
        python=changes.pop("python", sys.executable),
        **changes,
    )
