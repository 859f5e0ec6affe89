"""Files as parts: what a receiver refuses, whoever sends."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.launcher.errors import NotFound, TransferFailed, UsageError
from dtfctl.launcher.messages.files import (
    Checksum,
    Content,
    Done,
    FileHead,
    FileKind,
    FilePart,
)
from dtfctl.launcher.operator.host_access import split_place
from dtfctl.launcher.transfer.trees import place, receive, send
from tests.support.examples import examples


def head(path: str, kind: FileKind = "file", size: int = 0, link: str = "") -> FilePart:
    return FilePart(FileHead(path, kind, 0o644, size, link=link))


def file(path: str, data: bytes) -> list[FilePart]:
    return [head(path, size=len(data)), FilePart(Content(data)), FilePart(Checksum(hashlib.sha256(data).hexdigest()))]


ROOT = head("", "folder")
DONE = FilePart(Done())


def everything_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "parts",
    [
        [ROOT, *file("../x", b"a"), DONE],
        [ROOT, *file("/etc/x", b"a"), DONE],
        [ROOT, *file("a/../../x", b"a"), DONE],
        [ROOT, *file("./x", b"a"), DONE],
        [ROOT, *file("a//x", b"a"), DONE],
        [ROOT, head("a", "link", link="/etc"), DONE],
        [ROOT, head("a", "link", link="../.."), DONE],
        [ROOT, head("d", "folder"), head("d/a", "link", link="../../x"), DONE],
        [ROOT, head("a", "link", link="b"), head("b", "folder"), *file("a/x", b"a"), DONE],
        [head("", "link", link="x"), DONE],
        [*file("x", b"a"), DONE],
        [FilePart(Content(b"a")), DONE],
        [FilePart(Checksum("0")), DONE],
    ],
)
def test_nothing_is_written_outside_of_the_destination(parts: list[FilePart], tmp_path: Path) -> None:
    inside = tmp_path / "place"
    inside.mkdir()
    with pytest.raises(TransferFailed):
        receive(parts, inside / "in")
    assert everything_below(tmp_path) <= {"place", "place/in", "place/in/a", "place/in/b", "place/in/d"}


def test_a_link_that_was_there_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in" / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TransferFailed):
        receive([ROOT, head("d", "folder"), *file("d/x", b"a"), DONE], tmp_path / "in")
    (tmp_path / "in" / "f").symlink_to(tmp_path / "elsewhere" / "f")
    receive([ROOT, *file("f", b"new"), DONE], tmp_path / "in")
    assert not (tmp_path / "in" / "f").is_symlink()
    assert everything_below(tmp_path / "elsewhere") == set()


@pytest.mark.parametrize(
    "parts",
    [
        file("", b"new"),
        [head("", size=3), FilePart(Content(b"ne")), FilePart(Checksum(hashlib.sha256(b"ne").hexdigest())), DONE],
        [head("", size=3), FilePart(Content(b"newer")), DONE],
        [head("", size=3), FilePart(Content(b"new")), FilePart(Checksum(hashlib.sha256(b"NEW").hexdigest())), DONE],
        [head("", size=3), FilePart(Content(b"new")), DONE],
        [head("", size=3), head("")],
    ],
)
def test_what_is_damaged_or_not_complete_is_an_error(parts: list[FilePart], tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    with pytest.raises(TransferFailed):
        receive(parts, tmp_path / "f")
    assert everything_below(tmp_path) == {"f"}
    if parts[-1] == DONE:
        assert (tmp_path / "f").read_text() == "old"


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(os.fsencode(name)) < 200
)


@settings(max_examples=examples(30), deadline=None)
@given(st.dictionaries(names, st.one_of(st.binary(max_size=2000), st.dictionaries(names, st.binary(max_size=99)))))
def test_any_tree_arrives_as_it_was(content: dict[str, bytes | dict[str, bytes]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        source, target = Path(made) / "a", Path(made) / "b"
        source.mkdir()
        for name, value in content.items():
            if isinstance(value, bytes):
                (source / name).write_bytes(value)
            else:
                (source / name).mkdir()
                for inner, data in value.items():
                    (source / name / inner).write_bytes(data)
        received = receive(send(source), target)
        files = [path for path in source.rglob("*") if path.is_file()]
        assert (received.files, received.bytes) == (len(files), sum(path.stat().st_size for path in files))
        assert everything_below(source) == everything_below(target)
        assert all((target / path.relative_to(source)).read_bytes() == path.read_bytes() for path in files)


def test_where_things_go(tmp_path: Path) -> None:
    assert place(tmp_path, "f", as_folder=False) == tmp_path / "f"
    assert place(tmp_path / "new", "f", as_folder=False) == tmp_path / "new"
    for path, as_folder in ((tmp_path / "new", True), (tmp_path / "no" / "f", False)):
        with pytest.raises(NotFound):
            place(path, "f", as_folder=as_folder)
    with pytest.raises(NotFound):
        list(send(tmp_path / "never"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("worker/1:a/b", ("worker/1", "a/b")),
        ("worker:", ("worker", ".")),
        ("host:node1:/tmp/x", ("host:node1", "/tmp/x")),
        ("job:digits-1:out", ("job:digits-1", "out")),
        ("job:digits-1:worker/0:out", ("job:digits-1:worker/0", "out")),
        ("job:digits-1:data/x", ("job:digits-1", "data/x")),
        ("./a:b", None),
        ("/a:b", None),
        ("a", None),
        (":b", None),
    ],
)
def test_a_place_on_hosts_is_told_from_a_path(text: str, expected: tuple[str, str] | None) -> None:
    assert split_place(text) == expected


def test_a_host_without_a_path_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="names no path"):
        split_place("host:node1")
