"""The folder that goes with a job: which of its files, and always the same bytes."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest

from dtfctl.launcher.errors import TransferFailed
from dtfctl.launcher.operator import workdir
from dtfctl.launcher.transfer import archive, trees
from dtfctl.launcher.transfer.blobs import sha256_of


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def sent(root: Path) -> list[str]:
    return sorted(entry.path for entry in workdir.find(root) if not (root / entry.path).is_dir())


def test_what_nobody_wants_stays_by_habit(tmp_path: Path) -> None:
    unwanted = [".git/HEAD", "a/__pycache__/x.pyc", ".venv/bin/python", "old.pyc", ".mypy_cache/x", "x.egg-info/PKG"]
    plant(tmp_path, {"a/job.py": "", "a/.git": "gitdir: elsewhere", "env/pyvenv.cfg": "", "env/lib/x.py": ""})
    plant(tmp_path, dict.fromkeys(unwanted, ""))
    assert sent(tmp_path) == ["a/job.py"]
    plant(tmp_path, {".dtfignore": "!old.pyc\n"})
    assert sent(tmp_path) == [".dtfignore", "a/job.py", "old.pyc"], "what is named is sent"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({".gitignore": "*.log"}, ["data/x.bin", "keep/a.txt", "keep/b.txt"]),
        ({".gitignore": "*.log\n!a.log"}, ["a.log", "data/x.bin", "keep/a.txt", "keep/b.txt"]),
        ({".gitignore": "/data/\n# a comment\n\n*.log"}, ["keep/a.txt", "keep/b.txt"]),
        ({".gitignore": "*.txt", "keep/.gitignore": "!b.txt"}, ["a.log", "data/x.bin", "keep/b.txt"]),
        ({".gitignore": "*.txt", ".dtfignore": "!a.txt"}, ["a.log", "data/x.bin", "keep/a.txt"]),
        ({"keep/.dtfignore": "/a.txt"}, ["a.log", "data/x.bin", "keep/b.txt"]),
        ({".dtfignore": "keep/\n!keep/a.txt"}, ["a.log", "data/x.bin"]),
    ],
)
def test_rules_are_gits_and_the_deepest_and_dtfignore_have_the_last_word(
    tmp_path: Path, rules: dict[str, str], expected: list[str]
) -> None:
    plant(tmp_path, {"a.log": "", "data/x.bin": "", "keep/a.txt": "", "keep/b.txt": "", **rules})
    assert [name for name in sent(tmp_path) if "ignore" not in name] == expected


def test_rules_of_the_repository_count_in_a_folder_of_it(tmp_path: Path) -> None:
    plant(
        tmp_path, {".git/HEAD": "", ".gitignore": "/sub/out/\n*.tmp", "sub/out/x": "", "sub/a.tmp": "", "sub/a.py": ""}
    )
    assert sent(tmp_path / "sub") == ["a.py"]
    plant(tmp_path, {"sub/.dtfignore": "!a.tmp"})
    assert sent(tmp_path / "sub") == [".dtfignore", "a.py", "a.tmp"]


def test_the_same_content_is_the_same_archive_whenever_it_was_written(tmp_path: Path) -> None:
    names = []
    for number, order in enumerate((["b.py", "a/c.py"], ["a/c.py", "b.py"])):
        root = plant(tmp_path / str(number), {name: name for name in order})
        os.utime(root / "b.py", (number * 1e6, number * 1e6))
        workdir.pack(root, tmp_path / f"{number}.tree")
        names.append(sha256_of(tmp_path / f"{number}.tree"))
    assert names[0] == names[1]
    (tmp_path / "1" / "b.py").chmod(0o755)
    workdir.pack(tmp_path / "1", tmp_path / "again.tree")
    assert sha256_of(tmp_path / "again.tree") != names[0], "what can be run is something else"


def test_an_archive_of_an_older_version_says_what_to_do(tmp_path: Path) -> None:
    part = b"\x08\x03"  # a protobuf message
    (tmp_path / "tree").write_bytes(zlib.compress(struct.pack(">I", len(part)) + part, 1))
    with pytest.raises(TransferFailed, match="tree was packed by an older dtfctl") as caught:
        list(archive.read(tmp_path / "tree"))
    assert caught.value.hint == "submit the job again"
    for damaged in (b"", b"dtfctl", archive.MAGIC, archive.MAGIC + b"no", b"PK\3\4 a zip"):
        (tmp_path / "tree").write_bytes(damaged)
        with pytest.raises(TransferFailed):
            list(archive.read(tmp_path / "tree"))


def test_an_archive_becomes_the_folder_again(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a/b.txt": "x" * 3_000_000, "run.sh": "#!/bin/sh\n"})
    (root / "run.sh").chmod(0o755)
    (root / "a" / "link").symlink_to("b.txt")
    (root / "empty").mkdir()
    workdir.pack(root, tmp_path / "tree")
    assert (tmp_path / "tree").stat().st_size < 100_000
    trees.receive(archive.read(tmp_path / "tree"), tmp_path / "copy")
    copy = tmp_path / "copy"
    assert (copy / "a/b.txt").read_text() == "x" * 3_000_000
    assert (copy / "a/link").readlink() == Path("b.txt")
    assert os.access(copy / "run.sh", os.X_OK) and (copy / "empty").is_dir()


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    workdir.pack(plant(tmp_path / "root", {"a.txt": "hello" * 1000}), tmp_path / "tree")
    whole = (tmp_path / "tree").read_bytes()
    for number, data in enumerate((whole[:-5], b"", b"nonsense", whole[: len(whole) // 2] + b"\0" * 40)):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(TransferFailed):
            trees.receive(archive.read(tmp_path / "bad"), tmp_path / f"copy{number}")
