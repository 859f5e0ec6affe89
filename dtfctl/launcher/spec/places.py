"""The spec's `controller`, `logs`, `metrics` and `dashboard`; part of `model.py`."""
# ruff: noqa: RUF009  (`option` makes the dataclass field itself)

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dtfctl.launcher.spec.kinds import (
    Choice,
    Integer,
    Rate,
    Size,
    Text,
    option,
)

Bytes: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Logs:
    """Where output goes and how much of it is kept."""

    dir: str | None = option(
        Text("a path"),
        "Folder for logs.",
        "~/dtfctl-logs",
        default=None,
        default_text="the cluster's own folder",
    )
    rotate: Bytes = option(Size(), "A log file starts anew at this size.", "64MiB", default=64 * 2**20)
    keep: int = option(Integer(low=0, high=1000), "Old log files kept per task.", "3", default=3)
    rate: Bytes = option(Rate(), "Who writes more for long waits.", "10MiB/s", default=10 * 2**20)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Prometheus metrics."""

    port: int | None = option(
        Integer(low=1, high=65535),
        "Port of the metrics page.",
        "9464",
        default=None,
        default_text="no metrics page",
    )


@dataclass(frozen=True, slots=True)
class Dashboard:
    """The page that `dtfctl dashboard` opens."""

    port: int | None = option(
        Integer(low=0, high=65535),
        "It is up with the cluster, at this port of the controller's loopback; 0: a free one.",
        "8899",
        default=None,
        default_text="up when `dtfctl dashboard` asks for it",
    )


@dataclass(frozen=True, slots=True)
class ControllerPlace:
    """Where the controller runs."""

    place: Literal["local", "host"] = option(
        Choice(("local", "host")),
        "`local`: on the machine where `up` is typed; `host`: on a host of the cluster, which needs no operator's "
        "machine to heal.",
        "host",
        default="local",
    )
    host: str | None = option(
        Text("a host's name"), "With `place: host`: on which.", "node2", default=None, default_text="the first host"
    )
