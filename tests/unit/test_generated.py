"""Generated files are what the code gives now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "gen_docs.py"


def test_references_and_schema_are_current() -> None:
    spec = importlib.util.spec_from_file_location("gen_docs", TOOL)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    stale = [path.name for path, text in tool.documents().items() if path.read_text("utf-8") != text]
    assert not stale, f"out of date, run `make docs`: {stale}"
