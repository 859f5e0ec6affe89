"""The checkpoint folders of all jobs on this host: what the controller wants of them, and what other hosts ask."""

from __future__ import annotations

from collections.abc import Iterable

from dtfctl.launcher.checkpoints.replica import Replica, Tell
from dtfctl.launcher.errors import NotFound
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages.agent import FileList, FilePiece, ListFilesRequest, ReadFileRequest
from dtfctl.launcher.messages.orders import FolderOrder
from dtfctl.launcher.messages.reports import FolderReport


class Folders:
    """`take` and `close` belong to the agent's loop; all else may be called by any thread."""

    def __init__(self, tls: TlsFiles, tell: Tell) -> None:
        self._tls = tls
        self._tell = tell
        self._replicas: dict[str, Replica] = {}

    def take(self, orders: Iterable[FolderOrder], cluster: str) -> None:
        """Hold these folders from now on, and no others.

        Raises:
            NoSpace.
        """
        wanted = {order.path: order for order in orders}
        replicas = dict(self._replicas)
        for path in replicas.keys() - wanted.keys():
            replicas.pop(path).close()
        for path, order in wanted.items():
            if path in replicas:
                replicas[path].set_order(order)
            else:
                replicas[path] = Replica(order, self._tls, cluster, self._tell)
                replicas[path].start()
        self._replicas = replicas

    def holds_back(self, name: str) -> bool:
        """Tell whether a task or a job's process must not start yet, as what it would read is still on its way."""
        return any(name in replica.order.gates and not replica.opens_gate for replica in self._replicas.values())

    def reports(self) -> tuple[FolderReport, ...]:
        return tuple(replica.report() for replica in self._replicas.values())

    def list_files(self, request: ListFilesRequest) -> FileList:
        """Return what is here of a folder; nothing but the tag where the caller has that list.

        Raises:
            NotFound: no job has that folder, or not yet.
        """
        record = self._replica(request.path).record
        record.hear(request.clock)
        age_s = record.age_s  # first, as the list may be newer
        tag = record.tag  # before the entries: what changes meanwhile is listed again
        return FileList(tag, () if tag == request.tag else tuple(record.entries.values()), age_s)

    def read_file(self, request: ReadFileRequest) -> FilePiece:
        """Read a piece of a file. Raises NotFound."""
        record = self._replica(request.folder).record
        return FilePiece(data=record.read(request.path, request.sha256, request.offset))

    def _replica(self, path: str) -> Replica:
        found = self._replicas.get(path)
        if found is None:
            raise NotFound(f"no job has the folder {path[:200]}")
        return found

    def close(self) -> None:
        for replica in self._replicas.values():
            replica.close()
        self._replicas = {}
