"""The stored table: each case's newest rows, of however many runs, with the conditions of each run beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.limits import Limits
from benchmarks.machine import Machine
from benchmarks.results import Ratio, Row, Timing


@dataclass
class Run:
    """The conditions some rows were measured under.

    Attributes:
        command, date: how, and when it began.
    """

    command: str
    date: str
    machine: Machine
    limits: Limits


@dataclass
class Table:
    """Rows, and the runs they name."""

    runs: dict[str, Run] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, run: Run, rows: Iterable[Row], order: list[str]) -> None:
        """Put a run's rows in the place of older ones of the same cases; those it had no time for stay as they are.

        Args:
            order: the names of all cases there are, as the table has them; rows of others go.
        """
        number = str(max(map(int, self.runs), default=0) + 1)
        self.runs[number] = run
        new = [replace(row, run=number) for row in rows if row.was_run]
        # A run that leaves transports out says nothing about them.
        replaced = {(row.case, row.ours_name) for row in new}
        failed = {row.case for row in new if row.error}
        kept = [r for r in self.rows if (r.case, r.ours_name) not in replaced and r.case not in failed]
        places = {name: i for i, name in enumerate(order)}
        # The sort is stable: rows of a case stay in their order.
        self.rows = sorted((r for r in [*kept, *new] if r.case in places), key=lambda r: places[r.case])
        used = {row.run for row in self.rows}
        names = {old: str(i) for i, old in enumerate(sorted(used, key=int), 1)}
        self.runs = {names[n]: r for n, r in self.runs.items() if n in used}
        for row in self.rows:
            row.run = names[row.run]

    def to_json(self) -> dict[str, Any]:
        return {"runs": {n: asdict(r) for n, r in self.runs.items()}, "rows": [asdict(row) for row in self.rows]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Table:
        runs = {
            n: Run(r["command"], r["date"], Machine(**r["machine"]), Limits(**r["limits"]))
            for n, r in data["runs"].items()
        }
        return cls(runs, [_row(item) for item in data["rows"]])


def load(path: Path) -> Table:
    """The table of a file, an empty one where there is none."""
    if not path.exists():
        return Table()
    return Table.from_json(json.loads(path.read_text()))


def save(path: Path, table: Table) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(table.to_json(), indent=1) + "\n")


def _row(item: dict[str, Any]) -> Row:
    found = dict(item)
    for key, kind in (("ours", Timing), ("peer", Timing), ("ratio", Ratio)):
        if found[key] is not None:
            found[key] = kind(**found[key])
    return Row(**found)
