"""What is generated from the code is what is committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "tool",
    [
        "gen_protos.py",
        "gen_docs.py",
        "gen_ops_doc.py",
        "gen_api_doc.py",
        "gen_api_exports.py",
        "gen_missing.py",
        "gen_typescript.py",
        "gen_client_protocol.py",
    ],
)
def test_generated_files_are_current(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / tool, "--check"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
