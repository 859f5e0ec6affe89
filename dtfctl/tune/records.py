"""What a study has begun and what came of it: one line a record, which a study that goes on reads again."""

from __future__ import annotations

import collections
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dtfctl.launcher.errors import Conflict
from dtfctl.tune.schedule import Leg, Past
from dtfctl.tune.space import Stop, Study
from dtfctl.values import replace, value

FILE = "study.jsonl"


@value
class Ended:
    """How a leg ended."""

    key: tuple[int, int]
    score: float | None
    scores: tuple[float, ...] = ()
    """One of each execution."""
    reason: str = ""
    """Why there is no score."""
    seconds: float = 0.0
    metrics: tuple[tuple[str, float], ...] = ()


class Records:
    """A study's file, held by one process at a time.

    Attributes:
        uid: is in the ids of the study's jobs, so that each is submitted once.
        legs, ended: what was begun and ended, in their order.
    """

    def __init__(self, folder: Path, study: Study, script: str) -> None:
        """Open it; what is there is read.

        Raises:
            Conflict: it is of another study, damaged, or cannot be written, or another process leads it now.
        """
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._out: BinaryIO = open(self.path, "ab")  # noqa: SIM115
        except OSError as error:
            raise Conflict(
                f"a study cannot be kept in {folder}: {error.strerror}", "choose another place with --folder"
            ) from None
        try:
            fcntl.flock(self._out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._out.close()
            raise Conflict(
                f"another process leads the study in {folder}", "end it first, or choose another --folder"
            ) from None
        self.legs: dict[tuple[int, int], Leg] = {}
        self.ended: dict[tuple[int, int], Ended] = {}
        self.order: list[tuple[str, tuple[int, int]]] = []
        """`begin` and `end` of legs, as they happened."""
        self.uid = ""
        self._attempts: collections.Counter[tuple[int, int]] = collections.Counter()
        # How far a search goes, and how much at once, may be changed; what is searched may not.
        asked = replace(study, trials=0, stop=Stop(), at_once=None)
        digest = hashlib.sha256(f"{asked!r}\n{script}".encode()).hexdigest()
        for number, line in enumerate(self._read(), 1):
            try:
                self._take(json.loads(line), digest, folder)
            except (ValueError, KeyError, TypeError, IndexError):
                self.close()
                raise Conflict(
                    f"{self.path}:{number} is no record of a study",
                    "mend that line, or begin anew with another --folder",
                ) from None
        if not self.uid:
            self.uid = secrets.token_hex(3)
            self._write({"study": {"uid": self.uid, "digest": digest}})

    @property
    def past(self) -> list[Past]:
        """List the legs as schedulers see them."""
        return [
            Past(leg, self.ended[key].score if key in self.ended else None, key in self.ended)
            for key, leg in self.legs.items()
        ]

    def begin(self, leg: Leg) -> None:
        self._write(
            {
                "begin": {
                    "trial": leg.trial,
                    "number": leg.number,
                    "settings": dict(leg.settings),
                    "budget": leg.budget,
                    "after": leg.after,
                }
            }
        )
        self._note("begin", leg.key)
        self.legs[leg.key] = leg

    def end(self, ended: Ended) -> None:
        self._write(
            {
                "end": {
                    "key": ended.key,
                    "score": ended.score,
                    "scores": ended.scores,
                    "reason": ended.reason,
                    "seconds": ended.seconds,
                    "metrics": ended.metrics,
                }
            }
        )
        self._note("end", ended.key)
        self.ended[ended.key] = ended

    def again(self, leg: Leg) -> None:
        """Note that the jobs of a leg are given up: it is to be run by others."""
        self._write({"again": {"key": leg.key}})
        self._attempts[leg.key] += 1

    def attempt(self, leg: Leg) -> int:
        """Count how often a leg's jobs were given up."""
        return self._attempts[leg.key]

    def close(self) -> None:
        self._out.close()

    def _note(self, what: str, key: tuple[int, int]) -> None:
        self.order.append((what, key))

    def _write(self, record: dict[str, Any]) -> None:
        self._out.write(json.dumps(record).encode() + b"\n")
        self._out.flush()
        os.fsync(self._out.fileno())

    def _read(self) -> Iterator[bytes]:
        """Read all whole lines; a last one that is not was being written when its process ended, and goes."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.truncate(self.path, whole)
        yield from content[:whole].splitlines()

    def _take(self, record: dict[str, Any], digest: str, folder: Path) -> None:
        if "study" in record:
            self.uid = record["study"]["uid"]
            if record["study"]["digest"] != digest:
                raise Conflict(
                    f"the study in {folder} searches something else: another file, script or arguments",
                    "choose another --folder for this one; only `trials`, `stop` and `at_once` may be changed",
                )
        elif "begin" in record:
            found = record["begin"]
            after = None if found["after"] is None else (found["after"][0], found["after"][1])
            leg = Leg(found["trial"], found["number"], found["settings"], found["budget"], after)
            self._note("begin", leg.key)
            self.legs[leg.key] = leg
        elif "again" in record:
            self._attempts[record["again"]["key"][0], record["again"]["key"][1]] += 1
        elif "end" in record:
            found = record["end"]
            key = found["key"][0], found["key"][1]
            metrics = tuple((str(name), float(one)) for name, one in found["metrics"])
            self.ended[key] = Ended(
                key, found["score"], tuple(found["scores"]), found["reason"], found["seconds"], metrics
            )
            self._note("end", key)
