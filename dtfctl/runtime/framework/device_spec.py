"""Device names: `/job:J/replica:R/task:T/device:TYPE:ID`, any part of which may be left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

_KEYS = ("job", "replica", "task", "device")


@dataclass(slots=True, unsafe_hash=True)
class DeviceSpec:
    """A full or partial device name. None means "not said". Only programs change one that is made.

    >>> DeviceSpec.from_string("/job:ps/task:1/cpu:0").to_string()
    '/job:ps/task:1/device:CPU:0'
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    @classmethod
    def from_string(cls, spec: str | None) -> DeviceSpec:
        """Parse a device string, with the legacy forms `/cpu:0`, `/gpu:1` and `/device:GPU:*`.

        Raises:
            ValueError: the string is not a device specification.
        """
        out: dict[str, str | int | None] = {}
        for part in (spec or "").split("/"):
            if not part:
                continue
            fields = part.split(":")
            try:
                _parse_part(fields, out)
            except (ValueError, IndexError):
                raise ValueError(f"Malformed device specification '{spec}'") from None
        return cls(**out)  # type: ignore[arg-type]

    def to_string(self) -> str:
        out = ""
        if self.job is not None:
            out += f"/job:{self.job}"
        if self.replica is not None:
            out += f"/replica:{self.replica}"
        if self.task is not None:
            out += f"/task:{self.task}"
        if self.device_type is not None:
            out += f"/device:{self.device_type}:{'*' if self.device_index is None else self.device_index}"
        return out

    __str__ = to_string

    def merge(self, other: DeviceSpec) -> DeviceSpec:
        """Take the parts of `other` where it says something, else ours: how nested `tf.device` scopes combine."""
        return DeviceSpec(
            self.job if other.job is None else other.job,
            self.replica if other.replica is None else other.replica,
            self.task if other.task is None else other.task,
            self.device_type if other.device_type is None else other.device_type,
            self.device_index if other.device_index is None else other.device_index,
        )

    # TF2's name for the same operation.
    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        return self.merge(dev)

    def merge_from(self, dev: DeviceSpec) -> None:
        """Take the parts of another where it says something."""
        self._become(self.merge(dev))

    def parse_from_string(self, spec: str | None) -> DeviceSpec:
        """Become what a device string says; give this back."""
        self._become(DeviceSpec.from_string(spec))
        return self

    def _become(self, other: DeviceSpec) -> None:
        for part in self.__slots__:
            setattr(self, part, getattr(other, part))

    def replace(self, **parts: Any) -> DeviceSpec:
        """Give one in which some parts are others."""
        return replace(self, **parts)

    def conflicts(self, other: DeviceSpec) -> list[str]:
        """Name the parts on which both say something different."""
        pairs = {
            "job": (self.job, other.job),
            "replica": (self.replica, other.replica),
            "task": (self.task, other.task),
            "device_type": (self.device_type, other.device_type),
            "device_index": (self.device_index, other.device_index),
        }
        return [k for k, (a, b) in pairs.items() if a is not None and b is not None and a != b]

    def matches(self, full: DeviceSpec) -> bool:
        """Tell whether every part said here equals that of `full`."""
        return (
            (self.job is None or self.job == full.job)
            and (self.replica is None or self.replica == full.replica)
            and (self.task is None or self.task == full.task)
            and (self.device_type is None or self.device_type == full.device_type)
            and (self.device_index is None or self.device_index == full.device_index)
        )

    def without_device(self) -> DeviceSpec:
        """Keep only the task parts: what soft placement falls back to."""
        return replace(self, device_type=None, device_index=None)

    @property
    def is_complete(self) -> bool:
        return None not in (self.job, self.replica, self.task, self.device_type, self.device_index)


def _parse_part(fields: list[str], out: dict[str, str | int | None]) -> None:
    key = fields[0]
    if key == "device":
        if len(fields) not in (2, 3):
            raise ValueError(fields)
        out["device_type"] = fields[1].upper() if fields[1] != "*" else None
        if len(fields) == 3 and fields[2] != "*":
            out["device_index"] = _number(fields[2])
    elif key in _KEYS and len(fields) == 2:
        out[key] = fields[1] if key == "job" else None if fields[1] == "*" else _number(fields[1])
        if key == "job" and not fields[1]:
            raise ValueError(fields)
    elif key.upper() in ("CPU", "GPU") and len(fields) <= 2:
        out["device_type"] = key.upper()
        if len(fields) == 2 and fields[1] != "*":
            out["device_index"] = _number(fields[1])
    else:
        raise ValueError(fields)


def _number(text: str) -> int:
    if not text.isdigit():
        raise ValueError(text)
    return int(text)


def task_name(job: str, task: int, replica: int = 0) -> str:
    """Build the name of a task, a prefix of the names of its devices."""
    return f"/job:{job}/replica:{replica}/task:{task}"


def device_name(job: str, task: int, device_type: str = "CPU", index: int = 0) -> str:
    return f"{task_name(job, task)}/device:{device_type}:{index}"
