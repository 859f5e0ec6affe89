"""What the store says, in memory: the one copy that all parts of the controller's loop read and change."""

from __future__ import annotations

from dataclasses import replace

from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.controller.state.store import HostRow, Store, TaskRow
from dtfctl.launcher.errors import NoSuchJob
from dtfctl.launcher.messages import codec
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.procfs import boot_id


class DesiredState:
    """Desired state. Owned by the controller's loop; what is changed here is put into the store first."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.spec: ClusterSpec | None = None
        self.tasks: dict[str, TaskRow] = {}
        """By name, in the order of the spec."""
        self.jobs: list[JobRecord] = []
        """In the order of submission."""
        self.task_command: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        """What a person is to know, until the next `up`."""
        self.hosts: dict[str, HostRow] = {}
        """Of every host that is remembered for something."""
        self.going_down = False
        """Stored, so that a controller which somebody's call brings back meanwhile starts nothing either."""
        self.changed = True
        """Something that orders depend on is new since the last turn."""
        self._forget_another_boot()
        self.load()

    def _forget_another_boot(self) -> None:
        """Forgive failures of an earlier boot, whose times mean nothing."""
        if self.store.get("boot") == boot_id():
            return
        with self.store.transaction():
            for row in self.store.hosts():
                self.store.put_host(HostRow(row.name, row.drained, why=row.why if row.drained else ""))
            for task in self.store.tasks():
                self.store.put_task(replace(task, failures=()))
            self.store.put("boot", boot_id())

    def load(self) -> None:
        """Take over what is stored: at the start, and after a change that could not be stored."""
        self.spec = self.store.spec()
        self.going_down = self.going_down or self.store.get("going_down") is not None
        self.tasks = {row.name: row for row in self.store.tasks()}
        self.hosts = {row.name: row for row in self.store.hosts()}
        self.jobs = self.store.jobs()
        command = self.store.get("task_command")
        self.task_command = codec.decode(tuple[str, ...], command) if command else ()
        note = self.store.get("note")
        self.notes = (note,) if note else ()
        self.changed = True

    def store_going_down(self) -> None:
        self.store.put("going_down", "1")
        self.store.add_event("cluster.down-requested", "cluster", "by the user")

    def forget_notes(self) -> None:
        """Forget notes, which have been seen: the user does something about the cluster."""
        if self.notes:
            self.store.put("note", "")
            self.notes = ()

    def put_task(self, row: TaskRow) -> None:
        self.store.put_task(row)
        self.tasks[row.name] = row
        self.changed = True

    def host(self, name: str) -> HostRow:
        return self.hosts.get(name) or HostRow(name)

    def put_host(self, row: HostRow) -> None:
        self.store.put_host(row)
        self.hosts[row.name] = row
        self.changed = True

    def find_job(self, job_id: str) -> JobRecord:
        """Find a job by its id. Raises NoSuchJob."""
        for job in self.jobs:
            if job.id == job_id:
                return job
        known = ", ".join(job.id for job in self.jobs[-5:])
        raise NoSuchJob(f"there is no job {job_id!r}", f"newest jobs: {known}" if known else "no job was submitted yet")
