"""What a link sends to an agent that is slow to answer, and what it makes of one that it does not understand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dtfctl.launcher.controller.hosts import agent_link as module
from dtfctl.launcher.controller.hosts.agent_link import AgentLink
from dtfctl.launcher.errors import LauncherError, OtherVersion
from dtfctl.launcher.messages import agent_calls
from dtfctl.launcher.messages.agent import Applied
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.rpc.method import PeerUnavailable
from tests.cluster.conftest import wait_until

NOTHING: Any = None


class Wire:
    """A connection to an agent that loses some calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.lost = 0
        self.held = 0
        """What revision the agent says that it has."""
        self.term = 0
        self.named: list[int] = []
        """The leases that were renewed."""

    def call(self, method: Any, request: Any, *, timeout_s: float) -> Applied:
        self.calls.append("renew" if method is agent_calls.RENEW else "orders")
        if method is agent_calls.RENEW:
            if self.lost:
                self.lost -= 1
                raise PeerUnavailable("no answer")
            self.named.append(request.term)
            return Applied(self.held, self.term)
        self.held = request.revision
        return Applied(request.revision, self.term)

    def close(self) -> None:
        self.calls.append("close")


class AllThere:
    """Certificates that are never due."""

    def forget(self) -> None: ...

    def is_pending(self) -> bool:
        return False

    def provide(self, channel: Any, orders: HostOrders) -> list[str]:
        return []


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    monkeypatch.setattr(module, "RENEW_S", 0.01)
    monkeypatch.setattr(module, "RENEW_AGAIN_S", 0.01)
    found = Wire()
    link = AgentLink("h", "c", 1, NOTHING, NOTHING, ("", 0), *[NOTHING] * 5, AllThere(), NOTHING)
    link._channel = found  # type: ignore[assignment]
    link.set_orders(HostOrders(revision=7, lease_s=15.0))
    thread = threading.Thread(target=link._send)
    thread.start()
    yield found
    link.close()
    thread.join(60.0)
    assert not thread.is_alive()


def test_a_lost_renewal_is_made_again_and_orders_are_not(wire: Wire) -> None:
    wait_until(lambda: wire.calls.count("renew") >= 3, "renewals")
    wire.lost = 5
    wait_until(lambda: wire.lost == 0, "five are lost")
    before = len(wire.calls)
    wait_until(lambda: len(wire.calls) > before + 5, "it goes on")
    assert wire.calls.count("orders") == 1


def test_an_agent_that_has_other_orders_gets_them_again(wire: Wire) -> None:
    wait_until(lambda: "renew" in wire.calls, "renewals")
    wire.held = 3
    wait_until(lambda: wire.calls.count("orders") == 2, "they are sent again")
    assert wire.held == 7


def test_a_lease_that_has_ended_is_renewed_only_after_the_agent_has_said_so(wire: Wire) -> None:
    wait_until(lambda: wire.named, "renewals")
    wire.term = 1
    wait_until(lambda: 1 in wire.named, "the new lease is renewed")
    assert wire.named[: wire.named.index(1)] == [0] * wire.named.index(1)
    wait_until(lambda: wire.named[-3:] == [1, 1, 1], "it stays renewed")
    assert wire.calls.count("orders") == 1


def test_an_agent_of_another_version_makes_its_host_fail_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the two changes by itself: `up` must not wait for that."""
    lost: list[LauncherError] = []
    link = AgentLink(
        "h", "c", 1, NOTHING, NOTHING, ("", 0), NOTHING, NOTHING, NOTHING, lambda _, why: lost.append(why),
        lambda _: None, AllThere(), NOTHING,
    )  # fmt: skip

    def watch() -> Iterator[Any]:
        raise OtherVersion("the other process runs an older dtfctl", "use one version of dtfctl")

    monkeypatch.setattr(link, "_find_or_start", lambda: None)
    monkeypatch.setattr(link, "_connect", lambda endpoint: None)
    monkeypatch.setattr(link, "_watch", watch)
    thread = threading.Thread(target=link._follow)
    thread.start()
    try:
        wait_until(lambda: lost, "it is told")
    finally:
        link.close()
        thread.join(60.0)
    assert isinstance(lost[0], HostFailed)
    assert (lost[0].cause, lost[0].message) == ("agent", "the other process runs an older dtfctl")
    assert "use one version" in lost[0].hint
