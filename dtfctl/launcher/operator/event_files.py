"""Keep a copy of a job's event files on this machine, as its processes go on writing them on their hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from dtfctl.launcher.errors import Conflict, LauncherError, NoSuchJob
from dtfctl.launcher.model import ClusterStatus, JobStatus
from dtfctl.launcher.operator.host_access import Command, Target

MOST_FILES = 1000
MOST_BYTES = 64 << 20
"""What a look at a host fetches; the rest comes with the next one."""
MOST_SAID = MOST_BYTES + MOST_FILES * 8192
"""What such a look may say: the bytes, and for each file a line with its path."""
# Runs on a host. It is given a folder, how much of each file is known, and how much it may say: for each file that has
# grown a line of JSON [name, from where on, how many bytes], and then these bytes.
_TAILS = """
import json, os, sys
folder, known, most = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
out = sys.stdout.buffer
found = []
for place, folders, names in os.walk(os.path.expanduser(folder)):
    below = os.path.relpath(place, os.path.expanduser(folder))
    for name in names:
        if "tfevents" in name or name.endswith(".xplane.pb"):
            found.append(os.path.normpath(os.path.join(below, name)))
for name in sorted(found)[:int(sys.argv[4])]:
    path = os.path.join(os.path.expanduser(folder), name)
    begin = known.get(name, 0)
    try:
        count = min(os.path.getsize(path) - begin, most)
        if count <= 0 or os.path.islink(path):
            continue
        with open(path, "rb") as file:
            file.seek(begin)
            data = file.read(count)
    except OSError:
        continue
    out.write(json.dumps([name, begin, len(data)]).encode() + b"\\n" + data)
    most -= len(data)
"""
Run = Callable[[Target, Sequence[str]], Command]


def job_of(status: ClusterStatus, job: str) -> JobStatus:
    """Find a job whose event files can be had.

    Raises:
        NoSuchJob. Conflict: it has no folder, or no host yet.
    """
    found = next((known for known in status.jobs if known.id == job), None)
    if found is None:
        raise NoSuchJob(f"there is no job {job}", "look with: dtfctl jobs")
    if not found.checkpoint_dir or not any(client.host for client in found.clients):
        raise Conflict(f"{job} has written nothing yet", f"look with: dtfctl why {job}")
    return found


def _is_event_file(name: str) -> bool:
    return "tfevents" in name or name.endswith(".xplane.pb")


class EventFiles:
    """A copy of the event files of a job.

    Args:
        job: see `job_of`.
        folder: where they go; it is made.
        run: runs a command on a host (`Cluster.exec`).
    """

    def __init__(self, job: JobStatus, folder: Path, run: Run) -> None:
        self._hosts = sorted({client.host for client in job.clients if client.host})
        self._theirs = job.checkpoint_dir
        self._folder = folder
        self._run = run
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def fetch(self) -> int:
        """Fetch what is new; how many bytes that were.

        Raises:
            LauncherError: no host could be asked.
        """
        count, problems = 0, []
        for host in self._hosts:
            try:
                count += self._fetch_from(host)
            except LauncherError as error:
                problems.append(error)
        if len(problems) == len(self._hosts):
            raise problems[0]
        return count

    def _fetch_from(self, host: str) -> int:
        known = {
            str(file.relative_to(self._folder)): file.stat().st_size
            for file in self._folder.rglob("*")
            if _is_event_file(file.name) and file.is_file() and not file.is_symlink()
        }
        words = ["python3", "-c", _TAILS, self._theirs, json.dumps(known), str(MOST_BYTES), str(MOST_FILES)]
        command = self._run(Target(f"host:{host}", host, ""), words)
        said = bytearray()
        try:
            for stream, data in command:
                if stream == "out":
                    said += data
                if len(said) > MOST_SAID:
                    raise Conflict(f"{host} says more than it was asked for", "dtfctl doctor looks at versions")
        finally:
            command.close()
        return self._take(bytes(said), known)

    def _take(self, said: bytes, known: Mapping[str, int]) -> int:
        count = 0
        while said:
            head, _, said = said.partition(b"\n")
            try:
                name, begin, size = json.loads(head)
                parts = PurePosixPath(name).parts
                if not isinstance(size, int) or size < 0 or "\0" in name:
                    raise ValueError(name)
            except (ValueError, TypeError):
                raise Conflict("a host's answer makes no sense", "dtfctl doctor looks at versions") from None
            data, said = said[:size], said[size:]
            # What a host says leads nowhere else.
            if PurePosixPath(name).is_absolute() or ".." in parts or begin != known.get(name, 0):
                continue
            file = self._folder.joinpath(*parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab") as out:
                out.write(data)
            count += len(data)
        return count
