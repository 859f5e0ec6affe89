"""Where the files of jobs lie, and that a controller which has lost them takes them back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.controller.workloads.job_files import fetch, spread
from dtfctl.launcher.messages.agent_calls import GET_BLOB
from dtfctl.launcher.messages.files import BlobHeld, BlobPiece
from dtfctl.launcher.rpc.method import PeerUnavailable
from dtfctl.launcher.transfer.blobs import PIECE_BYTES, Blobs

CONTENT = b"x" * (PIECE_BYTES + 7)
NAME = hashlib.sha256(CONTENT).hexdigest()


class Link:
    """To a host, whose files lie in a folder here."""

    def __init__(self, folder: Path) -> None:
        self.host = folder.name
        self.blobs = Blobs(folder)
        self.is_away = False

    def channel(self) -> Link:
        return self

    def call(self, method: object, request: Any, timeout_s: float) -> BlobPiece | BlobHeld:
        if self.is_away:
            raise PeerUnavailable("away")
        return self.blobs.piece(request.sha256, request.offset) if method is GET_BLOB else self.blobs.take(request)


def put(blobs: Blobs) -> None:
    for at in range(0, len(CONTENT), PIECE_BYTES):
        blobs.take(BlobPiece(sha256=NAME, size=len(CONTENT), offset=at, data=CONTENT[at : at + PIECE_BYTES]))


def test_files_come_back_from_a_host_that_has_them(tmp_path: Path) -> None:
    former, new = Blobs(tmp_path / "former"), Blobs(tmp_path / "new")
    a, b, c = (Link(tmp_path / name) for name in "abc")
    put(former)
    assert spread(former, frozenset({NAME}), [b, c])  # type: ignore[list-item]
    assert spread(former, frozenset({NAME}), [b, c])  # type: ignore[list-item]
    c.is_away = True
    other = "0" * 64
    with pytest.raises(PeerUnavailable):
        fetch(new, frozenset({NAME, other}), [a, b, c])  # type: ignore[list-item]
    assert new.path(NAME).read_bytes() == CONTENT
    c.is_away = False
    assert fetch(new, frozenset({NAME, other}), [a, b, c]) == {other}  # type: ignore[list-item]


def test_a_host_that_is_away_does_not_have_them(tmp_path: Path) -> None:
    former, host = Blobs(tmp_path / "former"), Link(tmp_path / "a")
    put(former)
    host.is_away = True
    assert not spread(former, frozenset({NAME}), [host])  # type: ignore[list-item]
