"""`@pytest.mark.fault(N)` and `measured`: what a test of row N of the failure table saw."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cluster.conftest import home as home, up as up
from tests.faults.report import PROPERTY
from tests.faults.table import BY_NUMBER
from tests.lab.conftest import make_lab as make_lab

Measured = Callable[[str, float], None]


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Note a number of this test's row; its name is one of the row's goals."""
    marker = request.node.get_closest_marker("fault")
    assert marker is not None, "a test that measures names its row: @pytest.mark.fault(N)"
    row = BY_NUMBER[marker.args[0]]

    def note(name: str, value: float) -> None:
        assert name in row.goals, f"row {row.number} has no number called {name!r}"
        request.node.user_properties.append((PROPERTY, json.dumps([row.number, name, value])))

    return note
