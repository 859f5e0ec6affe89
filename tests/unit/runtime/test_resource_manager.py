"""Named state: what a lookup that finds nothing says."""

from __future__ import annotations

import pytest

from dtfctl.runtime.framework.errors import NotFoundError
from dtfctl.runtime.framework.resource_manager import Resource, ResourceManager


def test_a_container_nobody_used_and_a_name_nobody_used_are_told_apart() -> None:
    resources = ResourceManager("job")
    missing = r"Container job does not exist. \(Could not find resource: job/x\)"
    with pytest.raises(NotFoundError, match=missing):
        resources.lookup("", "x", Resource)
    with pytest.raises(NotFoundError, match=missing):
        resources.delete("", "x")
    resources.create("", "y", Resource())
    with pytest.raises(NotFoundError, match=r"Resource job/x/Resource does not exist\."):
        resources.lookup("", "x", Resource)
    with pytest.raises(NotFoundError, match=r"Resource job/x does not exist\."):
        resources.delete("", "x")
