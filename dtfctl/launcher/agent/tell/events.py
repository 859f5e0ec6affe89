"""What a change of a record means to those who are told: the event that it is, if it is one."""

from __future__ import annotations

from dtfctl.launcher.agent.units.lifecycle import Record
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.values import value


@value
class News:
    """An event about a unit; see `contract.Happening`."""

    kind: str
    reason: str
    incarnation: int
    failure: bool


def news_of(unit: Unit, old: Record, now: float) -> News | None:
    """What happened between `old` and the unit's record as it is now."""
    record = unit.record
    kind = "task" if unit.is_task else "process"
    if not unit.is_task and record.state == "stopped" and not old.is_alive:
        return None  # it is only held until all of its job may start
    failed = record.history != old.history
    if record.state == "pending":
        if not old.is_alive:
            return None
        wait = 0.0 if record.retry_at is None else max(0.0, record.retry_at - now)
        return News(f"{kind}.ended", f"{record.reason}; starts again in {wait:.1f} s", old.incarnation, failed)
    text = record.hung if record.state == "stopping" else record.reason
    return News(f"{kind}.{record.state}", text, record.incarnation, failed and not record.is_alive)
