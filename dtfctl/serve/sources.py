"""Where a model's versions lie on disk, and which of them are to be served."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from dtfctl.errors import DtfctlError
from dtfctl.values import value

Kind = Literal["saved_model", "frozen", "checkpoint"]
LABELS = "labels.json"
MOST_LABELS = 64 * 1024
"""Bytes of a file of labels."""
SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")
_STEP = re.compile(r"-(\d+)$")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
"""A version's number, as it is written in one way only, and fits into 64 bits."""


class NoModel(DtfctlError):
    """There is nothing that could be served, or not as it was asked for."""


@value
class Source:
    """One version of a model on disk."""

    version: int
    kind: Kind
    path: str
    """The folder of a SavedModel, the file of a frozen graph, or the prefix of a checkpoint."""
    stamp: int
    """The time when it was written, in nanoseconds: with another one it is another model."""


@value
class Policy:
    """Which versions are served: the newest `latest`, or exactly those `numbers`; all where neither is said."""

    latest: int = 1
    numbers: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Read `latest`, `latest:2`, `all` or `3,5`.

        Raises:
            NoModel: it is none of these.
        """
        word, _, count = text.partition(":")
        if text == "all":
            return cls(latest=0)
        if word == "latest" and ((count.isdecimal() and int(count)) or text == "latest"):
            return cls(latest=int(count or 1))
        parts = text.split(",")
        if all(part.isdecimal() for part in parts):
            return cls(0, tuple(sorted({int(part) for part in parts})))
        raise NoModel(f"{text!r} says of no versions: write `latest`, `latest:2`, `all` or `3,5`")

    def choose(self, found: Iterable[Source]) -> list[Source]:
        """Choose what is to be served, the oldest first."""
        ordered = sorted(found, key=lambda source: source.version)
        if self.numbers:
            return [source for source in ordered if source.version in self.numbers]
        return ordered[-self.latest :] if self.latest else ordered


def find(model: str) -> list[Source]:
    """Find the versions of a model.

    Args:
        model: a frozen graph's file; the prefix of a checkpoint (`model.ckpt-100`), or the folder in which a program
            saves checkpoints, each of which is a version; a SavedModel's folder; or a folder with such things in
            folders whose names are the versions' numbers.

    Raises:
        NoModel: there is none.
    """
    path = Path(model)
    if not path.is_dir():
        found = _single(path, 1)
        return [found] if found is not None else _none(model)
    single = _saved_model(path, 1)
    if single is not None:
        return [single]
    versions = []
    for folder in path.iterdir():
        if _NUMBER.fullmatch(folder.name) and folder.is_dir():
            inside = _version(folder, int(folder.name))
            if inside is not None:
                versions.append(inside)
    return versions or _checkpoints(path) or _none(model)


def labels(model: str) -> dict[str, int]:
    """Read the names of versions, `{"stable": 3}`, from the file `labels.json` in a model's folder; none without it.

    Raises:
        NoModel: the file is something else.
    """
    path = Path(model, LABELS)
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_LABELS + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise NoModel(f"{path} cannot be read: {error.strerror}") from None
    try:
        found = json.loads(content) if len(content) <= MOST_LABELS else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(
        name and type(number) is int and 0 <= number < 2**63 for name, number in found.items()
    ):
        raise NoModel(f'{path} has to be an object of names and versions, as {{"stable": 3, "canary": 4}}')
    return found


def _none(model: str) -> list[Source]:
    what = "there is nothing of that name" if not os.path.exists(model) else "that is none of these"
    raise NoModel(
        f"{model} cannot be served: {what}. A model is a SavedModel's folder, a frozen graph (`.pb`), a checkpoint "
        "with its `.meta` file, or a folder of such in folders 1, 2, ..., on the host on which it is served"
    )


def _version(folder: Path, number: int) -> Source | None:
    found = _saved_model(folder, number)
    if found is not None:
        return found
    files = sorted(folder.glob("*.pb"))
    if len(files) == 1:
        return _single(files[0], number)
    inside = _checkpoints(folder)
    if inside:
        newest = max(inside, key=lambda source: source.version)
        return Source(number, newest.kind, newest.path, newest.stamp)
    return None


def _saved_model(folder: Path, version: int) -> Source | None:
    for name in SAVED_MODEL:
        stamp = _stamp(folder / name)
        if stamp is not None:
            return Source(version, "saved_model", str(folder), stamp)
    return None


def _single(path: Path, version: int) -> Source | None:
    stamp = _stamp(path)
    if stamp is not None:
        return Source(version, "frozen", str(path), stamp)
    stamp = _stamp(Path(f"{path}.index"))
    if stamp is None or _stamp(Path(f"{path}.meta")) is None:
        return None
    step = _STEP.search(path.name)
    return Source(int(step[1]) if step else version, "checkpoint", str(path), stamp)


def _checkpoints(folder: Path) -> list[Source]:
    found = (_single(index.with_suffix(""), 1) for index in folder.glob("*.index"))
    return [source for source in found if source is not None]


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns if path.is_file() else None
    except OSError:
        return None
