"""The controller's memory: one SQLite file (WAL), written and committed before anything is done about it.

Every change of state is also a row of `events`, in the same transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.errors import InternalError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.model import Event
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import no_space

DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
SCHEMA_VERSION = 3
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (
    name TEXT PRIMARY KEY, position INTEGER NOT NULL, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hosts (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, submission_id TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    reason TEXT NOT NULL, incarnation INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The desired state of one task. Times are of CLOCK_MONOTONIC."""

    name: str
    host: str
    run: bool = True
    restart_request: int = 0
    incarnation: int = 0
    """The newest known; the next start gets a higher one."""
    starts: int = 0
    """How often it has been started, on whatever hosts, as far as is known."""
    grace_s: float = 10.0
    move_to: str = ""
    """The host where the task goes as soon as it has ended on `host`; its place there is taken already."""
    ran_on: tuple[str, ...] = ()
    """Other hosts on which it was before, in order: what it wrote there is read from them."""
    failures: tuple[Failure, ...] = ()
    """The task's newest failures, wherever."""
    gave_up: int = -1
    """The `restart_request` at which its agent gave it up: until the user asks again, nobody starts it."""
    held: bool = False
    """`up --only` has left it out, and it has never run: a later `up` starts it."""
    owed: str = ""
    """Why a later `up` is to restart it: its definition has changed, and `up --only` has left it as it was."""
    owed_at: int = 0
    """The incarnation that runs with the former definition; the next one has the new one anyway."""

    @property
    def job(self) -> str:
        return self.name.partition("/")[0]

    @property
    def index(self) -> int:
        return int(self.name.partition("/")[2])

    @property
    def is_wanted(self) -> bool:
        """Whether the task is to run, wherever."""
        return self.run and not self.held

    @property
    def is_final(self) -> bool:
        """Whether the task was given up, or has ended well."""
        return self.gave_up >= self.restart_request


@dataclass(frozen=True, slots=True)
class Failure:
    """A task ended by itself, or was killed because it hung."""

    host: str
    time: float


@dataclass(frozen=True, slots=True)
class HostRow:
    """What is remembered of a host beyond what its agent reports. Times are of CLOCK_MONOTONIC."""

    name: str
    drained: bool = False
    quarantined_until: float | None = None
    """Set aside; from this time on until a probe of it has succeeded."""
    quarantines: int = 0
    """The number of times that the host was set aside since it last did well: the time doubles."""
    released_at: float = 0.0
    why: str = ""
    failures: tuple[float, ...] = ()
    """The times when tasks failed on the host."""


def is_damage(error: BaseException) -> bool:
    """Tell whether the database is not one any more."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.DatabaseError) and code is not None and code & 0xFF in DAMAGED_CODES


class Store:
    """Used by the controller's loop alone; readers in other threads open `read_events`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._must_forget = False
        with _explained(path):
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA secure_delete=ON")
            self._db.executescript(SCHEMA)
            version = self.get("schema") or str(SCHEMA_VERSION)
            if int(version) != SCHEMA_VERSION:
                age = "a newer" if int(version) > SCHEMA_VERSION else "an older"
                raise InternalError(f"{path} was written by {age} dtfctl", "use that version")
            self.put("schema", str(SCHEMA_VERSION))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all or nothing; nested use joins the outer one."""
        if self._db.in_transaction:
            yield
            return
        with _explained(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        self._forget()

    def close(self) -> None:
        self._db.close()

    # ------------------------------------------------------------------ meta

    def get(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, value: str) -> None:
        with _explained(self.path):
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def next_epoch(self) -> int:
        """Number this controller: one more than any before it."""
        epoch = int(self.get("epoch") or 0) + 1
        self.put("epoch", str(epoch))
        return epoch

    def spec(self) -> ClusterSpec | None:
        text = self.get("spec")
        return None if text is None else codec.decode(ClusterSpec, text)

    def set_spec(self, spec: ClusterSpec) -> None:
        self.put("spec", codec.encode(spec))

    # ------------------------------------------------------------------ tasks

    def tasks(self) -> list[TaskRow]:
        """Read the tasks in the order of the spec."""
        rows = self._db.execute("SELECT record FROM tasks ORDER BY position")
        return [codec.decode(TaskRow, record) for (record,) in rows]

    def put_tasks(self, rows: list[TaskRow]) -> None:
        """Replace all of them."""
        with self.transaction():
            self._db.execute("DELETE FROM tasks")
            self._db.executemany(
                "INSERT INTO tasks (name, position, record) VALUES (?, ?, ?)",
                [(row.name, at, codec.encode(row)) for at, row in enumerate(rows)],
            )

    def put_task(self, row: TaskRow) -> None:
        with _explained(self.path):
            self._db.execute("UPDATE tasks SET record = ? WHERE name = ?", (codec.encode(row), row.name))

    # ------------------------------------------------------------------ hosts

    def hosts(self) -> list[HostRow]:
        rows = self._db.execute("SELECT record FROM hosts ORDER BY name")
        return [codec.decode(HostRow, record) for (record,) in rows]

    def put_host(self, row: HostRow) -> None:
        with _explained(self.path):
            self._db.execute("INSERT OR REPLACE INTO hosts VALUES (?, ?)", (row.name, codec.encode(row)))

    def delete_host(self, name: str) -> None:
        with _explained(self.path):
            self._db.execute("DELETE FROM hosts WHERE name = ?", (name,))

    # ------------------------------------------------------------------ jobs

    def jobs(self) -> list[JobRecord]:
        """Read the jobs in the order of submission."""
        rows = self._db.execute("SELECT seq, record FROM jobs ORDER BY seq")
        return [replace(codec.decode(JobRecord, record), seq=seq) for seq, record in rows]

    def add_job(self, record: JobRecord) -> JobRecord:
        with _explained(self.path):
            cursor = self._db.execute(
                "INSERT INTO jobs (id, submission_id, record) VALUES (?, ?, ?)",
                (record.id, record.request.submission_id, codec.encode(record)),
            )
        assert cursor.lastrowid is not None
        return replace(record, seq=cursor.lastrowid)

    def put_job(self, record: JobRecord) -> None:
        with _explained(self.path):
            self._db.execute("UPDATE jobs SET record = ? WHERE id = ?", (codec.encode(record), record.id))
        self._must_forget = self._must_forget or record.is_final
        self._forget()

    def _forget(self) -> None:
        """Let what ended jobs have left (their variables) stand nowhere in the files any more."""
        if self._must_forget and not self._db.in_transaction:
            self._must_forget = False
            with _explained(self.path):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    # ------------------------------------------------------------------ events

    def add_event(
        self, kind: str, subject: str, reason: str = "", incarnation: int = 0, at: float | None = None
    ) -> int:
        with _explained(self.path):
            cursor = self._db.execute(
                "INSERT INTO events (time, kind, subject, reason, incarnation) VALUES (?, ?, ?, ?, ?)",
                (time.time() if at is None else at, kind, subject, reason, incarnation),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def last_event(self) -> int:
        return int(self._db.execute("SELECT COALESCE(MAX(seq), 0) FROM events").fetchone()[0])


def read_events(path: Path, after: int, since: float, limit: int) -> list[Event]:
    """Read events with a higher number than `after`, not older than `since`, oldest first; for any thread."""
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=5.0, uri=True)  # none is made where it was deleted
    try:
        rows = db.execute(
            "SELECT seq, time, kind, subject, reason, incarnation FROM events"
            " WHERE seq > ? AND time >= ? ORDER BY seq LIMIT ?",
            (after, since, limit),
        ).fetchall()
    finally:
        db.close()
    return [Event(*row) for row in rows]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise no_space(path) from error
        raise
