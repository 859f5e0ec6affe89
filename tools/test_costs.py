"""Add up what tests cost: CPU seconds, and seconds in which they only waited.

DTF_TEST_COSTS=costs python tools/run_tests.py
python tools/test_costs.py costs [folder | file | function | test] [HOW MANY]
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Sum:
    cpu_s: float = 0.0
    wall_s: float = 0.0
    tests: set[str] = field(default_factory=set)


def group(test: str, by: str) -> str:
    """Name what a test is counted with; what is no test's is `collection`."""
    if not test:
        return "collection"
    file = test.split("::")[0]
    if by == "folder":
        return "/".join(file.split("/")[: 3 if file.startswith("tests/unit/") else 2])
    return {"file": file, "function": test.split("[")[0], "test": test}[by]


def main(words: list[str]) -> int:
    if not words or (words[1:2] and words[1] not in ("folder", "file", "function", "test")):
        print(__doc__, file=sys.stderr)
        return 2
    by = words[1] if len(words) > 1 else "folder"
    sums: dict[str, Sum] = defaultdict(Sum)
    for line in Path(words[0]).read_text().splitlines():
        cost = json.loads(line)
        for name in (group(cost["test"], by), "all"):
            sums[name].cpu_s += cost["cpu"]
            sums[name].wall_s += cost["wall"]
            sums[name].tests.add(cost["test"])
    print(f"{'CPU s':>9} {'wall s':>9} {'tests':>6}")
    for name, one in sorted(sums.items(), key=lambda item: -item[1].cpu_s)[: int(words[2]) if len(words) > 2 else None]:
        print(f"{one.cpu_s:9.2f} {one.wall_s:9.1f} {len(one.tests - {''}):6} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
