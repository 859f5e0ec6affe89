"""Docstrings begin with a line that can be read alone; `tools/check_docstrings.py` says what that is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

import check_docstrings  # noqa: E402

NOT_YET = {
    "dtfctl/launcher",
}
"""Folders and files that still have others. The list may only become shorter."""
CLEAN = {
    *(f"dtfctl/launcher/{room}" for room in ("checkpoints", "controller", "identity", "messages", "rpc")),
    *(f"dtfctl/launcher/{room}" for room in ("operator", "providers", "spec", "system", "transfer")),
    *(f"dtfctl/launcher/{name}.py" for name in ("api", "errors", "model", "paths", "selectors")),
}
"""Folders in these that have none any more. The list may only become longer."""


def room_of(path: str) -> str:
    """Return the longest name of a listed folder that a file is in; empty where it is in none."""
    rooms = [room for room in NOT_YET | CLEAN if path == room or path.startswith(f"{room}/")]
    return max(rooms, key=len, default="")


def test_first_lines_can_be_read_alone() -> None:
    files = sorted((REPOSITORY / "dtfctl").rglob("*.py"))
    found = [finding for file in files for finding in check_docstrings.findings(file)]
    new = [str(finding) for finding in found if room_of(finding.path) not in NOT_YET]
    assert not new, "\n".join(["begin with a verb and what it is done to:", *new])


def test_the_list_is_not_longer_than_it_must_be() -> None:
    for room in NOT_YET:
        folder = REPOSITORY / room
        files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
        assert any(True for file in files for _ in check_docstrings.findings(file)), f"{room} is clean: take it out"


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
