"""Files known by their content: pieces in any order that a broken connection leaves, and nothing that is wrong."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from dtfctl.launcher.errors import NotFound, TransferFailed, UsageError
from dtfctl.launcher.messages.files import BlobHeld, BlobPiece
from dtfctl.launcher.transfer import blobs
from dtfctl.launcher.transfer.blobs import Blobs, deliver


@pytest.fixture
def source(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(300_000))
    return path, blobs.sha256_of(path)


def test_a_transfer_goes_on_where_it_broke_off(
    tmp_path: Path, source: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "PIECE_BYTES", 100_000)
    path, name = source
    store = Blobs(tmp_path / "store")
    pieces: list[int] = []

    def put(piece: BlobPiece) -> BlobHeld:
        pieces.append(len(piece.data))
        if len(pieces) == 3:
            raise ConnectionError
        return store.take(piece)

    with pytest.raises(ConnectionError):
        deliver(path, name, put)
    assert not store.has(name)
    with pytest.raises(NotFound):
        store.path(name)
    deliver(path, name, put)
    assert store.path(name).read_bytes() == path.read_bytes()
    assert pieces == [0, 100_000, 100_000, 0, 100_000, 100_000]
    deliver(path, name, put)
    assert pieces[6:] == [0], "what is there is not sent again"


def test_what_is_not_what_it_was_said_to_be_is_not_kept(tmp_path: Path, source: tuple[Path, str]) -> None:
    path, _ = source
    store = Blobs(tmp_path / "store")
    wrong = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(TransferFailed, match="damaged"):
        deliver(path, wrong, store.take)
    assert list((tmp_path / "store").iterdir()) == []
    for name in ("../escape", "", "A" * 64, "a" * 63):
        with pytest.raises(UsageError):
            store.take(BlobPiece(sha256=name, size=1, data=b"x"))
    with pytest.raises(UsageError):
        store.take(BlobPiece(sha256="a" * 64, size=blobs.LARGEST + 1))
    assert store.take(BlobPiece(sha256="a" * 64, size=5, offset=0, data=b"longer than said")).bytes == 0


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    store, name = Blobs(tmp_path / "store"), hashlib.sha256().hexdigest()
    deliver(tmp_path / "empty", name, store.take)
    assert store.has(name)


def test_the_longest_unused_go_but_not_what_is_needed_or_new(tmp_path: Path) -> None:
    store = Blobs(tmp_path)
    names = [f"{number:064x}" for number in range(4)]
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(b"x" * 100)
        old = time.time() - (40_000 - number * 10_000 if number < 3 else 0)
        os.utime(tmp_path / name, (old, old))
    store.prune({names[0]}, 200)
    assert [store.has(name) for name in names] == [True, False, False, True]
