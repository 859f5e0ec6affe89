"""A host that was cut off does not believe what was sent to it before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.agent import loop as module
from dtfctl.launcher.agent.loop import Agent
from dtfctl.launcher.messages.orders import HostOrders
from tests.support.waiting import eventually

OUT_OF_REACH = "192.0.2.1:7"
"""An address for documentation (RFC 5737): no machine has it."""


@pytest.fixture
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setattr(module, "can_reach", lambda peer: False)
    found = Agent("a", folder, folder / "logs", folder / "certificates")
    thread = threading.Thread(target=found.run)
    thread.start()
    yield found
    found.call(lambda: found.shutdown(0.0))
    thread.join(60.0)
    assert not thread.is_alive()


def leases(agent: Agent) -> list[str]:
    news = agent.reports.wait(0, 0.0)[1].happenings
    return [item.kind for item in news if item.subject == "host:a" and "lease" in item.kind]


def test_a_word_from_before_the_end_of_a_lease_does_not_renew_it(agent: Agent) -> None:
    """As the kernel delivers it that kept it while the host was cut off: a renewal, and orders."""
    orders = HostOrders(epoch=1, revision=3, lease_s=0.2)
    agent.call(lambda: agent.apply(orders, OUT_OF_REACH))
    eventually(lambda: leases(agent) == ["host.lease-ended"])

    late = agent.term - 1
    assert agent.call(lambda: agent.renew(1, 3, late, OUT_OF_REACH)) == 3
    agent.call(lambda: agent.apply(orders, OUT_OF_REACH))
    assert leases(agent) == ["host.lease-ended"]

    assert agent.call(lambda: agent.renew(1, 3, agent.term, OUT_OF_REACH)) == 3
    eventually(lambda: "host.lease-renewed" in leases(agent))
