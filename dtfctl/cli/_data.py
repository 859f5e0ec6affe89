"""The launcher's values as plain data, for `-o json` and `-o yaml`.

The shapes are the dataclasses of `dtfctl.launcher.model` with their computed fields added. Fields are added over
time, never renamed or removed within `"version": 1`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dtfctl.launcher.model import (
    ClientStatus,
    ClusterInfo,
    ClusterStatus,
    Event,
    JobStatus,
    LogLine,
    TaskStatus,
)
from dtfctl.launcher.operator.why import Explanation


def plain(value: Any) -> Any:
    """`value` as dicts, lists and scalars."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None  # JSON has no such numbers
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    found = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    match value:
        case TaskStatus():
            return {"name": value.name, **found}
        case ClusterStatus():
            return {"name": found.pop("name"), "healthy": value.healthy, "running": value.running, **found}
        case Event():
            # `kind` is the document's own in the versioned shape.
            return {"event" if name == "kind" else name: item for name, item in found.items()}
        case JobStatus():
            return {"id": found.pop("id"), "final": value.is_final, **found}
    return found


def document(
    value: ClusterStatus | JobStatus | Event | LogLine | ClusterInfo | ClientStatus | Explanation,
) -> dict[str, Any]:
    """Turn one of the launcher's values into a document's content."""
    content: dict[str, Any] = plain(value)
    return content
