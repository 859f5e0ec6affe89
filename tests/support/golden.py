"""The golden cases: graphs serialized by stock TensorFlow 2.21 with the values it computed (tests/golden/data)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2, summary_pb2

DATA = Path(__file__).resolve().parent.parent / "golden" / "data"


@dataclass(frozen=True)
class Step:
    feeds: dict[str, np.ndarray]
    fetches: list[str]
    targets: list[str]
    want: list[np.ndarray]


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    ops: tuple[str, ...]
    rtol: float
    atol: float

    def graph_def(self) -> graph_pb2.GraphDef:
        return graph_pb2.GraphDef.FromString((DATA / self.group / f"{self.name}.pb").read_bytes())

    def steps(self) -> list[Step]:
        entry = _entries()[self.name]
        with np.load(DATA / self.group / f"{self.name}.npz") as arrays:
            return [
                Step(
                    {name: _as_tensor(arrays[f"s{i}_feed{j}"]) for j, name in enumerate(step["feeds"])},
                    step["fetches"],
                    step["targets"],
                    [_as_tensor(arrays[f"s{i}_want{j}"]) for j in range(len(step["fetches"]))],
                )
                for i, step in enumerate(entry["steps"])
            ]

    def check(self, fetch: str, got: Any, want: np.ndarray) -> None:
        """Assert that a fetched value is the wanted one, as tests/golden/data was made to be read."""
        got = np.asarray(got)
        assert got.shape == want.shape, f"{self.name} {fetch}: shape {got.shape}, wanted {want.shape}"
        if want.dtype == object:
            if "Summary" in fetch or any("Summary" in op for op in self.ops):
                parse = summary_pb2.Summary.FromString
                assert [parse(g) for g in got.reshape(-1)] == [parse(w) for w in want.reshape(-1)], fetch
                return
            assert got.reshape(-1).tolist() == want.reshape(-1).tolist(), f"{self.name} {fetch}"
            return
        assert got.dtype == want.dtype, f"{self.name} {fetch}: dtype {got.dtype}, wanted {want.dtype}"
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want, err_msg=f"{self.name} {fetch}")
        else:
            np.testing.assert_allclose(got, want, self.rtol, self.atol, err_msg=f"{self.name} {fetch}")


def _as_tensor(array: np.ndarray) -> np.ndarray:
    return array.astype(object) if array.dtype.kind == "S" else array


@lru_cache(maxsize=1)
def _entries() -> dict[str, Any]:
    return {c["name"]: c for c in json.loads((DATA / "cases.json").read_text())}


def cases() -> list[Case]:
    return [Case(c["name"], c["group"], tuple(c["ops"]), c["rtol"], c["atol"]) for c in _entries().values()]
