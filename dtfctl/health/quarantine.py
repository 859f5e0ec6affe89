"""When a host that keeps failing is set aside, and for how long.

A host is set aside after `failures` failures within `within_s`, if it stands out: when every host has many, the tasks
are at fault and not the hosts. The time doubles with each repetition; a host that did well for `within_s` after its
return starts from the beginning.

>>> policy = QuarantinePolicy()
>>> [length_s(policy, n) for n in range(8)]
[60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
>>> mine = (10.0, 20.0, 30.0)
>>> stands_out(policy, mine, [(), (1.0,)], now=40.0), stands_out(policy, mine, [(1.0, 9.0)], now=40.0)
(True, False)
>>> stands_out(policy, (10.0, 10.1, 10.2, 10.3), [()], now=40.0)
False
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ONE_INCIDENT_S = 2.0


@dataclass(frozen=True, slots=True)
class QuarantinePolicy:
    """The spec's `quarantine` block, in seconds."""

    failures: int = 3
    within_s: float = 600.0
    first_s: float = 60.0
    max_s: float = 3600.0


def recent(policy: QuarantinePolicy, failures: Sequence[float], now: float) -> tuple[float, ...]:
    """Return the failures within the window."""
    return tuple(time for time in failures if now - time < policy.within_s)


def stands_out(policy: QuarantinePolicy, mine: Sequence[float], others: Sequence[Sequence[float]], now: float) -> bool:
    """Tell whether a host with the failures `mine` is to be set aside, given those of the other hosts."""
    count = incidents(recent(policy, mine, now))
    if count < policy.failures or not others:
        return False
    usual = sum(incidents(recent(policy, times, now)) for times in others) / len(others)
    return count > 2 * usual


def incidents(times: Sequence[float]) -> int:
    """Return how many separate happenings these failures are: what fails within seconds has one cause."""
    found, last = 0, float("-inf")
    for time in times:
        if time - last >= ONE_INCIDENT_S:
            found, last = found + 1, time
    return found


def length_s(policy: QuarantinePolicy, before: int) -> float:
    """Return how long a host is set aside that was set aside `before` times already."""
    return min(policy.max_s, policy.first_s * 2.0 ** min(before, 64))
