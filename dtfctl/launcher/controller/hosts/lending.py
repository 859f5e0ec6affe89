"""What the hosts of a cluster are lent by: told as events, named before it ends, begun anew where the spec says so."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from dtfctl import guard
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.model import GrantStatus
from dtfctl.launcher.providers.base import Grant, Provider

log = logging.getLogger(__name__)

SUBJECT = "allocation"
SAID_S = (3600.0, 900.0)
"""The seconds before the end at which it is told that it comes, besides `margin`."""
GIVEN_BACK = 0.5
"""The part of `margin` that is left when hosts are given back for others: jobs have the rest to save."""
MOST_NODES = 8
AGAIN_S = 10.0


class Lending:
    """The grant of a cluster's hosts, if there is one. Owned by the controller's loop."""

    def __init__(self, desired_state: DesiredState, provider: Provider) -> None:
        self._desired_state = desired_state
        self._provider = provider
        self.grant: Grant | None = None
        self.save = 0
        """When jobs were last told to save, in seconds since the epoch: see `HostOrders`."""
        self._told = float("inf")
        """The shortest time before the end that was told."""
        self._requeued = -1
        """The number of the grant that was given back for another."""
        self._requeue_at = 0.0
        self._lives: dict[str, str] = {}
        """The last lending of each host that is lent by itself."""

    def again(self) -> bool:
        """Expect another grant in place of one that has ended; whether it had."""
        if self.grant is None or self.grant.state != "ended":
            return False
        self.grant = None
        return True

    def changed(self, grant: Grant, every: Collection[str]) -> Collection[str]:
        """Take over what has changed, and tell it; in a transaction. The hosts on which all that ran has ended."""
        before, self.grant = self.grant, grant
        self._tell(before, grant)
        self._desired_state.changed = True
        anew = [host for host, life in grant.lives.items() if self._lives.get(host, life) != life]
        self._lives.update(grant.lives)
        if before is None or grant.state == "ended":
            return ()
        if before.what != grant.what or before.state == "ended":
            return every
        return anew if grant.lives or before.lives else every if before.number != grant.number else ()

    def _tell(self, before: Grant | None, grant: Grant) -> None:
        if grant.state == "granted":
            is_anew = before is not None and before.number != grant.number and not grant.lives
            if before is None or before.state != "granted" or is_anew:
                self._told = _left(grant)
                self._say("granted", f"{grant.what} lends {_named(grant)}{_until(grant)}")
            elif lost := sorted(before.nodes.keys() - grant.nodes.keys()):
                names = ", ".join(f"{before.nodes[host]} ({host})" for host in lost)
                self._say("node-lost", f"{grant.what} goes on without {names}")
            elif come := sorted(grant.nodes.keys() - before.nodes.keys()):
                names = ", ".join(f"{grant.nodes[host]} ({host})" for host in come)
                self._told = _left(grant)
                self._say("granted", f"{grant.what} lends {names}, too")
            elif before.ends != grant.ends:
                self._told = _left(grant)
                self._say("limit", f"{grant.what} has another time limit{_until(grant)}")
        elif grant.state == "queued":
            again = "again " if before is not None and before.state == "granted" else ""
            if before is None or before.state != "queued" or before.why != grant.why:
                self._say("queued", f"{grant.what} waits {again}in the queue: {grant.why}{_expected(grant)}")
        elif before is None or before.state != "ended" or before.what != grant.what:
            self._say("ended", f"{grant.what} {grant.why}")

    def _say(self, what: str, text: str) -> None:
        self._desired_state.store.add_event(f"{SUBJECT}.{what}", SUBJECT, text)

    def look(self, now: float) -> None:
        """Tell of the end before it comes, and begin anew if that is wanted; `now`: seconds since the epoch."""
        grant, spec = self.grant, self._desired_state.spec
        if grant is None or grant.state != "granted" or grant.ends is None or spec is None:
            return
        left, margin = grant.ends - now, spec.slurm.margin
        due = [limit for limit in {*SAID_S, margin} if left <= limit < self._told]
        if due:
            self._told = min(due)
            self._say("ending", f"{grant.what} ends in {left_words(left)}{self._what_then(grant)}")
        if margin in due:
            self.save, self._desired_state.changed = int(now), True
        if left <= margin * GIVEN_BACK and spec.slurm.on_limit == "requeue" and grant.is_ours:
            self._begin_anew(grant)

    def _what_then(self, grant: Grant) -> str:
        assert self._desired_state.spec is not None
        slurm = self._desired_state.spec.slurm
        if slurm.on_limit == "requeue" and grant.is_ours:
            return (
                f"; {left_words(slurm.margin * GIVEN_BACK)} before, it is given back for another, and jobs go on there"
            )
        return "; jobs go on from their newest checkpoint after the next `up`"

    def _begin_anew(self, grant: Grant) -> None:
        now = time.monotonic()
        if self._requeued == grant.number or now < self._requeue_at:
            return
        self._requeue_at = now + AGAIN_S
        self._requeued = grant.number
        self._say(
            "requeued", f"{grant.what} is given back before its time limit; the cluster goes on when it is granted"
        )

        def work() -> None:
            try:
                self._provider.begin_anew()
            except LauncherError as error:
                log.warning("%s cannot be given back for another: %s", grant.what, error.message)
                self._requeued = -1

        guard.once(work, name="begin-anew").start()

    @property
    def ends_all(self) -> bool:
        """Whether giving the hosts back ends what runs on those that cannot be reached."""
        return self.grant is not None and self.grant.is_ours

    def node_of(self, host: str) -> str:
        """Name the machine that a host is; empty where nobody lends it."""
        return self.grant.nodes.get(host, "") if self.grant is not None else ""

    def status(self) -> GrantStatus | None:
        """Say how it stands; None where nobody lends the hosts."""
        grant = self.grant
        if grant is None:
            return None
        return GrantStatus(grant.state, grant.what, grant.why, grant.ends, grant.starts)


def left_words(seconds: float) -> str:
    """Write a time that is left, as coarsely as one looks at it: `18 min`."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{max(0.0, seconds):.0f} s"


def _left(grant: Grant) -> float:
    return float("inf") if grant.ends is None else grant.ends - time.time()


def _named(grant: Grant) -> str:
    names = list(grant.nodes.values())
    return ", ".join(names[:MOST_NODES]) + (f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else "")


def _until(grant: Grant) -> str:
    return "" if grant.ends is None else time.strftime(" until %Y-%m-%d %H:%M:%S", time.localtime(grant.ends))


def _expected(grant: Grant) -> str:
    if grant.starts is None or grant.starts <= time.time():
        return ""
    return time.strftime(", expected at %H:%M:%S", time.localtime(grant.starts))
