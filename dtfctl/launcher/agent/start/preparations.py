"""What a job's processes wait for on a host before they start: its files, its working copy, its packages.

    AGENT/blobs/HASH             what was sent
    AGENT/work/JOB.UID/          the job's working folder on this host; its own, it may write there
    AGENT/work/JOB.UID.tree      the hash of what was unpacked there

The agent's loop asks; the work is done in a thread for each job.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dtfctl import guard
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages.orders import ClientOrder, JobNeeds
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.transfer.blobs import Blobs
from dtfctl.values import value

if TYPE_CHECKING:
    from dtfctl.launcher.agent.start.environments import Builder

log = logging.getLogger(__name__)

KEPT_COPIES = 20
"""Working folders of jobs that have ended."""
BLOBS_BYTES = 4 * 2**30
Key: TypeAlias = tuple[str, int, tuple[str, ...], JobNeeds]
"""The job's key, and what of it makes a difference."""


@value
class Prepared:
    """What a process of a job starts with."""

    folder: str = ""
    """The job's working folder; empty: the job has none of its own."""
    python: str = ""
    """The interpreter; empty: the one of its order."""
    environment: str = ""
    """The virtual environment; empty: there is none."""


class _Work:
    """One job's preparation."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.outcome: Prepared | LauncherError | None = None


class Preparations:
    """The preparations of one agent. `look`, `result` and `keep` belong to its loop."""

    def __init__(self, folder: Path, environments: Path, wake: Callable[[], None]) -> None:
        self._folder = folder
        self.environments = environments
        self._wake = wake
        self.blobs = Blobs(folder / "blobs")
        self._works: dict[Key, _Work] = {}

    def look(self, order: ClientOrder, command: str, lent: Sequence[str]) -> str:
        """Begin what can be begun; say what the start waits for, empty once it is ready, or has failed."""
        needs = order.needs
        if needs.is_empty:
            return ""
        work = self._works.get(_key(order))
        if work is None:
            missing = [name for name in needs.files if not self.blobs.has(name)]
            if missing:
                return f"waits for {len(missing)} of its files"
            self._begin(order, command, lent)
            return "is being prepared"
        return "its packages are being installed" if work.outcome is None else ""

    def result(self, order: ClientOrder) -> Prepared:
        """Find what to start a process with.

        Raises:
            LauncherError: it could not be prepared.
        """
        if order.needs.is_empty:
            return Prepared()
        work = self._works.get(_key(order))
        outcome = None if work is None else work.outcome
        if outcome is None:
            raise LauncherError("its files are not here yet")
        if isinstance(outcome, LauncherError):
            raise outcome
        return outcome

    def keep(self, orders: Collection[ClientOrder]) -> None:
        """Want only these from now on: work for others ends."""
        wanted = {_key(order) for order in orders if order.run}
        for key in self._works.keys() - wanted:
            self._works.pop(key).builder.stop()

    def close(self) -> None:
        """End all work: the agent ends."""
        self.keep(())

    def folder_of(self, job_id: str) -> Path | None:
        """Find the working folder of a job on this host, also of one that has ended."""
        copies = [mark.with_suffix("") for mark in (self._folder / "work").glob("*.tree")]
        own = [path for path in copies if path.name.partition(".")[0] == job_id and path.is_dir()]
        return max(own, key=lambda path: path.stat().st_mtime, default=None)

    # ------------------------------------------------------------------ the work

    def _begin(self, order: ClientOrder, command: str, lent: Sequence[str]) -> None:
        from dtfctl.launcher.agent.start.environments import Builder

        builder = Builder(self.environments, self.blobs)
        work = self._works[_key(order)] = _Work(builder)
        living = {job for job, *_ in self._works}

        def run() -> None:
            try:
                work.outcome = self._prepare(order, builder, command, lent, living)
            except LauncherError as error:
                work.outcome = error
            except Exception as error:  # a bug, or a disk: the job is to hear of it
                log.exception("job %s", order.job_id)
                work.outcome = LauncherError(f"cannot be prepared: {type(error).__name__}: {error}")
            self._wake()

        guard.once(run, name=f"prepare-{order.job_id}").start()

    def _prepare(
        self, order: ClientOrder, builder: Builder, command: str, lent: Sequence[str], living: Collection[str]
    ) -> Prepared:
        needs = order.needs
        for name in needs.files:
            self.blobs.used(name)
        folder = str(self._unpack(order.key, needs.tree_sha256, living)) if needs.tree_sha256 else ""
        self.blobs.prune(set(needs.files), BLOBS_BYTES)
        if needs.packages.is_empty:
            return Prepared(folder)
        made = builder.environment(command, needs.packages, lent)
        return Prepared(folder, made.python, made.folder)

    def _unpack(self, job: str, sha256: str, living: Collection[str]) -> Path:
        """Unpack the job's working folder. What a process of it wrote there stays when it starts again."""
        import shutil

        from dtfctl.launcher.transfer import archive, trees

        target = private_folder(self._folder / "work") / job
        mark = target.with_name(f"{job}.tree")
        if target.is_dir() and mark.is_file() and mark.read_text() == sha256:
            return target
        self._forget_old(living)
        fresh = target.with_name(f".{job}")
        for old in (fresh, target):
            shutil.rmtree(old, ignore_errors=True)
        trees.receive(archive.read(self.blobs.path(sha256)), fresh)
        fresh.rename(target)
        write_whole(mark, sha256.encode())
        return target

    def _forget_old(self, living: Collection[str]) -> None:
        import shutil

        marks = sorted((self._folder / "work").glob("*.tree"), key=lambda path: path.stat().st_mtime, reverse=True)
        for mark in [mark for mark in marks if mark.stem not in living][KEPT_COPIES:]:
            shutil.rmtree(mark.with_suffix(""), ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                mark.unlink()


def _key(order: ClientOrder) -> Key:
    return order.key, order.generation, order.command, order.needs
