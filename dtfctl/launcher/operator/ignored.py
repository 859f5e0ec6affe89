"""Which files of a working folder stay at home: by habit, and by the `.gitignore` and `.dtfignore` files in it."""

from __future__ import annotations

import posixpath
from pathlib import Path

from pathspec import GitIgnoreSpec

from dtfctl.launcher.errors import UsageError

FILES = (".gitignore", ".dtfignore")
"""The files with rules, in this order: the later one has the last word."""
HABIT = (
    *(".git", ".hg/", ".svn/", "__pycache__/", "*.pyc", "*.pyo", ".venv/", ".DS_Store", ".ipynb_checkpoints/"),
    *(".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".hypothesis/", ".tox/", ".nox/", ".eggs/", "*.egg-info/"),
)
"""Never wanted on a host, unless a `.dtfignore` says `!name`."""


class Ignored:
    """The rules of one working folder, read as its folders are entered.

    Patterns are git's: the last one that matches decides, those of a deeper folder come after those of a higher one,
    and what lies in an ignored folder cannot be taken back. A folder that is a virtual environment is not sent.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[str, list[GitIgnoreSpec]] = {}
        """Of each folder of the tree, by its path in it."""
        self._above = _above(root)
        self._habit = GitIgnoreSpec.from_lines(HABIT)

    def wants(self, path: str, is_folder: bool) -> bool:
        """Tell whether `path`, relative to the working folder, is to be sent."""
        name = f"{path}/" if is_folder else path
        if is_folder and (self._root / path / "pyvenv.cfg").is_file():
            return False
        folder = posixpath.dirname(path)
        while True:
            inside = posixpath.relpath(path, folder) if folder else path
            for rules in reversed(self._of(folder)):
                said = rules.check_file(f"{inside}/" if is_folder else inside).include
                if said is not None:
                    return not said
            if not folder:
                break
            folder = posixpath.dirname(folder)
        for where, rules in self._above:
            said = rules.check_file(posixpath.join(where, name)).include
            if said is not None:
                return not said
        return not self._habit.match_file(name)

    def _of(self, folder: str) -> list[GitIgnoreSpec]:
        if folder not in self._rules:
            found = (_read(self._root / folder / name) for name in FILES)
            self._rules[folder] = [rules for rules in found if rules is not None]
        return self._rules[folder]


def _above(root: Path) -> list[tuple[str, GitIgnoreSpec]]:
    """Read the rules of the folders above, up to the repository's, nearest first, and where `root` lies below each."""
    if (root / ".git").exists():
        return []
    repository = next((folder for folder in root.parents if (folder / ".git").exists()), None)
    found = []
    for folder in root.parents if repository is not None else ():
        rules = _read(folder / ".gitignore")
        if rules is not None:
            found.append((root.relative_to(folder).as_posix(), rules))
        if folder == repository:
            break
    return found


def _read(path: Path) -> GitIgnoreSpec | None:
    try:
        return GitIgnoreSpec.from_lines(path.read_text("utf-8").splitlines())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the rules in {path}: {error}") from None
