"""The spec's `slurm`: what is asked of Slurm where it lends the hosts; part of `model.py`."""
# ruff: noqa: RUF009  (`option` makes the dataclass field itself)

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dtfctl.launcher.spec.kinds import Choice, Duration, Integer, ListOf, Seconds, Size, Text, option

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
