"""Where a task stands, and what it knows of the ways from it to others: what it tells the leaders of its groups."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Mapping
from typing import Protocol

from dtfctl import cores
from dtfctl.protocol import worker_pb2
from dtfctl.runtime.collective.communicator import Room
from dtfctl.runtime.collective.rerouting import changed

LOOK_S = 0.5
"""How often it is looked whether ways carry what they did."""
_MOST_RATES = 4096


class Timed(Protocol):
    """What times transfers to other tasks."""

    def rates(self) -> Mapping[str, float]:
        """Give what ways to other tasks carry that were timed of late, in bytes a second."""


class OwnWays:
    """What a task knows of where it stands.

    Args:
        host: its host's number.
        timed: None where there are no other tasks.
    """

    def __init__(self, host: int, timed: Timed | None) -> None:
        self._host = host
        self._timed = timed
        self._rack = 0
        self._told: dict[str, float] = {}

    def told(self, rack: str, rates: Mapping[str, float]) -> None:
        """Note what somebody knows who has measured.

        Args:
            rack: where this task stands; empty where nobody has said.
            rates: of ways to other tasks, in bytes a second. What was timed here of late counts before that.
        """
        self._rack = number_of(rack) if rack else 0
        self._told = dict(rates)

    def rates(self) -> dict[str, float]:
        """Give what is known of the ways to other tasks, in bytes a second."""
        return {**self._told, **(self._timed.rates() if self._timed is not None else {})}

    def standing(self) -> worker_pb2.Standing:
        """Say where this task stands, for the leader of a group."""
        return worker_pb2.Standing(
            host=self._host, cores=cores.available(), rack=self._rack, link=_listed(self.rates())
        )

    def news(self, room: Room) -> list[worker_pb2.LinkRate]:
        """Find what a group's leader does not know yet; nothing where it was asked a moment ago."""
        now = time.monotonic()
        if now - room.looked_at < LOOK_S or self._timed is None:
            return []
        room.looked_at = now
        others = {member.task for member in room.members if member.host != self._host}
        news = changed(room.rates, {task: rate for task, rate in self.rates().items() if task in others})
        room.rates |= news
        return _listed(news)


def number_of(name: str) -> int:
    """Make a number of a name, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _listed(rates: Mapping[str, float]) -> list[worker_pb2.LinkRate]:
    return [worker_pb2.LinkRate(task=task, bytes_s=rate) for task, rate in itertools.islice(rates.items(), _MOST_RATES)]
