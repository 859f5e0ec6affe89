"""The agent's state file: orders and the record of every process, so that a new agent finds what a killed one had."""

from __future__ import annotations

from pathlib import Path

from dtfctl.launcher.agent.units.lifecycle import Record
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.system.files import write_whole
from dtfctl.launcher.system.procfs import boot_id
from dtfctl.values import field, replace, value

FILE = "state.json"


@value
class Saved:
    """The file's content. Times and pids in it mean something only within the boot that it names."""

    boot_id: str
    socket_folder: str = ""
    orders: HostOrders = field(default_factory=HostOrders)
    records: dict[str, Record] = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    """The names in `records` that are processes of jobs; the others are tasks."""
    going_down: bool = False
    """The cluster is being taken down: an agent that is started now starts nothing any more."""


def load(path: Path) -> Saved:
    """Load what was saved last. After a reboot the processes are gone, but incarnations and failures still count."""
    try:
        saved = codec.decode(Saved, path.read_bytes())
    except FileNotFoundError:
        return Saved(boot_id())
    except ValueError as error:
        raise LauncherError(f"{path} is damaged: {error}", "take the cluster down and up again") from error
    if saved.boot_id == boot_id():
        return saved
    records = {
        name: replace(record, retry_at=None, kill_at=None, started_at=None, keeper_pid=0, task_pid=0)
        for name, record in saved.records.items()
    }
    return Saved(boot_id(), "", saved.orders, records, saved.processes, saved.going_down)


def content(path: Path) -> bytes:
    """Read the file as it is; empty where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def save(path: Path, saved: Saved) -> None:
    """Save the state whole. Raises NoSpace; the former file is then still there."""
    write_whole(path, codec.encode(saved).encode())
