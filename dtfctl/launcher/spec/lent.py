"""The spec's `slurm` and `ray`: what is asked of who lends the hosts; part of `model.py`."""
# ruff: noqa: RUF009  (`option` makes the dataclass field itself)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dtfctl.launcher.spec.kinds import (
    Choice,
    Duration,
    Integer,
    ListOf,
    MapOf,
    Number,
    Seconds,
    Size,
    Text,
    option,
)

Bytes: TypeAlias = int
MOST_NODES = 4096
WORD = r"[A-Za-z0-9_.,:@*+%/&|()\[\]=-]+"


@dataclass(frozen=True, slots=True)
class Slurm:
    """What is asked of Slurm. Inside an allocation (`salloc`, a script of `sbatch`) `up` takes that one instead."""

    nodes: int | None = option(
        Integer(low=1, high=MOST_NODES),
        "How many nodes; they are the hosts `slurm-0`, `slurm-1` and so on.",
        "4",
        default=None,
        default_text="all of the allocation in which `up` runs, else 1",
    )
    min: int | None = option(
        Integer(low=1, high=MOST_NODES),
        "With this many of `nodes` the cluster is usable, and others may come and go: each is a job of its own in "
        "Slurm's queue (an array), and is asked for again when it is taken back.",
        "1",
        default=None,
        default_text="all of them, granted together",
    )
    partition: str | None = option(
        Text("a partition", WORD), "Partition.", "gpu", default=None, default_text="Slurm's own"
    )
    time: Seconds | None = option(
        Duration(), "Time limit, in whole minutes.", "8h", default=None, default_text="the partition's"
    )
    account: str | None = option(Text("an account", WORD), "Account.", "vision", default=None, default_text="yours")
    qos: str | None = option(Text("a QOS", WORD), "Quality of service.", "high", default=None)
    gres: str | None = option(Text("generic resources", WORD), "Generic resources of each node.", "gpu:2", default=None)
    constraint: str | None = option(Text("features", WORD), "Features that nodes must have.", "a100", default=None)
    cpus: int | None = option(
        Integer(low=1, high=100_000),
        "Processors of each node.",
        "16",
        default=None,
        default_text="all of them: nodes are not shared",
    )
    memory: Bytes | None = option(
        Size(), "Memory of each node.", "64GiB", default=None, default_text="Slurm's own; all of it without `cpus`"
    )
    extra: tuple[str, ...] = option(
        ListOf(Text("an option of sbatch", r"--[a-z][a-z0-9-]*(=.*)?")),
        "Further options for `sbatch`.",
        "[--reservation=course]",
        default=(),
    )
    slots: int | None = option(
        Integer(low=1), "How many tasks a node takes.", "8", default=None, default_text="as many as are asked for"
    )
    on_limit: Literal["end", "requeue"] = option(
        Choice(("end", "requeue")),
        "What happens when the time limit comes near: `requeue` gives the nodes back within `margin`, and goes on "
        "with the same jobs when Slurm grants them again. Needs an allocation that `up` has asked for.",
        "requeue",
        default="end",
    )
    margin: Seconds = option(
        Duration(),
        "How long before the time limit jobs are told to save; half of it later `requeue` gives the nodes back.",
        "5m",
        default=120.0,
    )


@dataclass(frozen=True, slots=True)
class Ray:
    """What is asked of a running Ray cluster: one placement group, with a bundle on a node of its own for each host."""

    hosts: int = option(
        Integer(low=1, high=MOST_NODES),
        "How many hosts, each on a node of its own; they are `ray-0`, `ray-1` and so on.",
        "4",
        default=1,
    )
    min: int | None = option(
        Integer(low=1, high=MOST_NODES),
        "With this many of `hosts` the cluster is usable: others are asked for one by one, and may come and go.",
        "1",
        default=None,
        default_text="all of them, granted together",
    )
    address: str = option(
        Text("`auto` or HOST:PORT", r"auto|[A-Za-z0-9_.:\[\]-]+:[0-9]+"),
        "Where Ray is, as `ray.init` takes it. `auto`: RAY_ADDRESS, or the Ray of this machine.",
        "10.0.0.1:6379",
        default="auto",
    )
    cpus: float = option(
        Number(low=0.0, high=100_000.0), "Processors of each host, as Ray counts them.", "16", default=1.0
    )
    gpus: int = option(Integer(low=0, high=1024), "GPUs of each host.", "2", default=0)
    memory: Bytes | None = option(
        Size(), "Memory of each host, as Ray counts it.", "64GiB", default=None, default_text="not asked for"
    )
    resources: Mapping[str, float] = option(
        MapOf(Number(above=0.0), "a resource of Ray's", r"[A-Za-z0-9_.:-]+"),
        "Further resources of each host.",
        "{fast_disk: 1}",
        factory=dict,
    )
    python: str | None = option(
        Text("a path"),
        "The Python that Ray is installed for, on the machine where `up` runs.",
        "~/ray/bin/python",
        default=None,
        default_text="dtfctl's own if it has Ray, else that of the command `ray`",
    )
    slots: int | None = option(
        Integer(low=1), "How many tasks a host takes.", "8", default=None, default_text="as many as are asked for"
    )
