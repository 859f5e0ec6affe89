"""Docstrings begin with a line that can be read alone; `tools/check_docstrings.py` says what that is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import check_docstrings  # noqa: E402


@pytest.mark.slow
def test_first_lines_can_be_read_alone() -> None:
    files = sorted((REPOSITORY / "dtfctl").rglob("*.py"))
    found = [str(finding) for file in files for finding in check_docstrings.findings(file)]
    assert not found, "\n".join(["begin with a verb and what it is done to:", *found])


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('def send():\n    """Send one frame to the task at the other end."""', False),
        ('def send():\n    """Of one connection."""', True),
        ('def frame():\n    """The frame that came last."""', True),
        ('def frame():\n    """Frame."""', True),
        ('class Frame:\n    """The frame that came last."""', False),
        ('class Frame:\n    """For one connection."""', True),
        ('class A:\n    @property\n    def frame(self):\n        """The frame that came last."""', False),
        ('class A:\n    frame: int\n    """Of its start."""', True),
        ('LIMIT_S = 3.0\n"""How long a stranger may wait."""', False),
        ("def send():\n    return 1", False),
    ],
)
def test_what_is_found(source: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_docstrings, "REPOSITORY", tmp_path)
    file = tmp_path / "module.py"
    file.write_text(source)
    assert bool(list(check_docstrings.findings(file))) == found
