"""Loops being run: their iterations, and what each of these waits for and holds."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from dtfctl.runtime.executor.frame_nodes import NodeEntry, StaticFrame
from dtfctl.runtime.executor.keys import ROOT_FRAME


class Iteration:
    """One iteration of a frame: what its nodes wait for, and their inputs."""

    __slots__ = ("children", "frame", "number", "ops", "pending", "tag", "values")

    def __init__(self, frame: Frame, number: int) -> None:
        static = frame.static
        self.frame = frame
        self.number = number
        self.pending = static.pending.copy()
        self.values: list[Any] = [None] * static.values
        # Nodes that are ready or running.
        self.ops = 0
        self.children: dict[StaticFrame, Frame] = {}
        self.tag = f"{frame.id}:{number}" if frame.parent is not None else ROOT_FRAME


class Frame:
    """A loop being run. `id` is the same in every task that takes part in it."""

    __slots__ = (
        "deferred",
        "enters",
        "exited",
        "id",
        "invariants",
        "iterations",
        "last",
        "oldest",
        "parallel",
        "parent",
        "static",
    )

    def __init__(self, static: StaticFrame, parent: Iteration | None) -> None:
        self.static = static
        self.parent = parent
        self.id = 0
        if parent is not None:
            text = f"{parent.tag};{static.name}".encode()
            self.id = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
        self.parallel = max(1, static.parallel)
        self.iterations: dict[int, Iteration] = {0: Iteration(self, 0)}
        self.oldest = 0
        self.last = 0
        # Enter nodes that have not run yet.
        self.enters = static.enters
        self.invariants: list[tuple[NodeEntry, Any, bool]] = []
        self.deferred: list[tuple[NodeEntry, Any]] = []
        self.exited: set[NodeEntry] = set()
