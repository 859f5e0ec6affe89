"""On a host: whose a cluster is, and the end of all that it has there; see `host_side.py`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time

from dtfctl.launcher.providers.host_agent import find, kill, try_lock
from dtfctl.launcher.providers.host_base import (
    BASE,
    POLL_S,
    Trouble,
    entries,
    private,
    read_mark,
    remove,
    write_whole,
)
from dtfctl.launcher.providers.host_keys import forget_key, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

END_S = 10.0
CONTROLLERS = (b"dtfctl.launcher.controller", b"dtfctl.dashboard")


def stamp_path(cluster: str) -> str:
    return os.path.join(BASE, "clusters", cluster, "owner.json")


def read_stamp(cluster: str) -> dict[str, Any] | None:
    """Read whose the cluster of that name is here; None when it is nobody's."""
    try:
        stamp: dict[str, Any] = json.loads(read_mark(stamp_path(cluster)))
    except ValueError:
        return None
    return stamp


def check_owner(request: dict[str, Any]) -> None:
    """Refuse all but the owner of a cluster, whom its authority names."""
    owner = request.get("owner")
    if owner is None or request["do"] in ("adopt", "clean_all", "end_controllers"):
        return
    cluster = request["cluster"]
    stamp = read_stamp(cluster)
    if stamp is None or stamp["authority"] == owner["authority"]:
        return
    if stamp["authority"] in owner["given_up"]:
        with alone_in(os.path.join(BASE, "clusters", cluster)):
            if read_stamp(cluster) == stamp:  # else another host with the same files has, and there is a new owner
                evict(cluster)
        return
    raise Trouble("owner", *foreign(cluster, stamp, owner))


def foreign(cluster: str, stamp: dict[str, Any], owner: dict[str, Any]) -> tuple[str, str]:
    """Say why somebody may not touch a cluster, with a hint."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(stamp["since"]))
    if all(stamp[key] == owner[key] for key in ("user", "machine", "folder")):
        text = f"cluster {cluster} there is yours, of {since}, but its files here are gone"
        return text, "take it over: dtfctl up FILE --adopt; or end it: dtfctl hosts clean FILE"
    whose = f"{stamp['user']}@{stamp['machine']} ({stamp['folder']}, since {since})"
    return (
        f"cluster {cluster} there belongs to {whose}",
        "use another name, or a folder of your own there (`home: ~/FOLDER`), or take it over: dtfctl up FILE --adopt",
    )


def settle(cluster: str, host: str, owner: dict[str, Any]) -> None:
    """Make the cluster this owner's, and this host one of those in its folder: no other that leaves takes that away.

    Of several owners who come at once the first gets it.
    """
    while True:
        with alone_in(os.path.join(BASE, "clusters", cluster)):
            take_stamp(cluster, owner)
            stamp = read_stamp(cluster)
            if stamp is not None and stamp["authority"] == owner["authority"]:
                private("clusters", cluster, "hosts", host)
                return
        check_owner({"do": "settle", "cluster": cluster, "owner": owner})


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Keep other hosts with the same home from settling in a cluster's folder, and from leaving it, meanwhile."""
    while True:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # no file of its own, which would stay there
        except FileNotFoundError:
            continue  # another has just left it
        try:
            with contextlib.suppress(OSError):  # some shared disks have no locks on folders
                fcntl.flock(lock, fcntl.LOCK_EX)
            if is_same(lock, folder):
                yield
                return
        finally:
            os.close(lock)


def is_same(fd: int, path: str) -> bool:
    """Tell whether what is open still stands there."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def take_stamp(cluster: str, owner: dict[str, Any]) -> None:
    """Stamp a cluster as this owner's unless it is somebody's; by a link, as not every disk has locks."""
    path = stamp_path(cluster)
    fresh = f"{path}.{os.getpid()}"
    stamp = {key: value for key, value in owner.items() if key != "given_up"}
    write_whole(fresh, json.dumps(stamp).encode())
    try:
        os.link(fresh, path)
    except FileExistsError:
        return
    finally:
        os.unlink(fresh)


def adopt(cluster: str, host: str, owner: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Make the cluster this owner's, whom alone its agent listens to from now on.

    Tells what the agent kept, whose it was and what its tasks trust. They go on, with the certificates that they have.
    """
    folder = os.path.join(BASE, "clusters", cluster)
    own = os.path.join(folder, "hosts", host)
    if not os.path.isdir(own):
        others = entries(os.path.dirname(own))
        if others:
            raise Trouble("owner", f"cluster {cluster} knows it as {', '.join(others)}", "name it so in FILE")
        return {"found": False}
    keys = os.path.join(folder, "certificates")
    with alone_in(folder):
        stamp = read_stamp(cluster)
        ours = stamp is not None and stamp["authority"] == owner["authority"]
        if not ours:
            kill(cluster, host, 0.0)
            for name in [name for name in entries(keys) if name.startswith("agent-")]:
                remove(os.path.join(keys, name))
            fresh = {key: value for key, value in owner.items() if key != "given_up"}
            write_whole(stamp_path(cluster), json.dumps(fresh).encode())
    return {
        "found": True,
        "ours": ours,
        "former": f"{stamp['user']}@{stamp['machine']}" if stamp and not ours else "",
        "trusted": read_mark(os.path.join(own, "certificates", "ca.pem")),
        "copy": read_mark(os.path.join(own, "copy.json")),
        "state": read_mark(os.path.join(own, "state.json")),
    }


def evict(cluster: str) -> int:
    """End everything of a cluster on this host and delete its files but logs and checkpoints; how much was ended."""
    import shutil

    ended = end_processes(cluster)
    folder = os.path.join(BASE, "clusters", cluster)
    for host in entries(os.path.join(folder, "hosts")):
        forget_sockets(os.path.join(folder, "hosts", host))
    for name in ("hosts", "certificates"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    remove(stamp_path(cluster))
    forget_key(key_of(cluster))
    return ended


def end_processes(cluster: str) -> int:
    """Kill what runs of a cluster, agents first; how many processes there were."""
    return end_all(cluster, lambda: processes_of(cluster))


def end_strays(cluster: str, host: str) -> int:
    """Kill what an agent has left that is gone with all its records, of which no other will know; how much that was."""
    own = os.path.join(BASE, "clusters", cluster, "hosts", host)
    if os.path.exists(os.path.join(own, "state.json")):
        return 0
    held = try_lock(os.path.join(private("clusters", cluster, "hosts", host), "agent.lock"))
    if held is None:
        return 0  # one is there, and has not stored anything yet
    try:
        return end_all(cluster, lambda: live_processes([os.fsencode(own)], {}))
    finally:
        os.close(held)


def end_all(cluster: str, look: Callable[[], dict[int, bool]]) -> int:
    """Kill processes of a cluster until none is found; how many there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + END_S
    while True:
        found = look()
        if not found:
            return len(ended)
        if time.monotonic() > deadline:
            raise Trouble("agent", f"processes of cluster {cluster} do not end: {', '.join(map(str, sorted(found)))}")
        for pid in sorted(found, key=lambda pid: (not found[pid], pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            ended.add(pid)
        time.sleep(POLL_S)


def processes_of(cluster: str) -> dict[int, bool]:
    """Find the live processes of a cluster, each with whether it is an agent.

    Those in its records, those whose command line or variables name its folder, and all that these have started.
    """
    folders = [os.fsencode(os.path.join(BASE, *way, "clusters", cluster)) for way in ((), ("controllers",))]
    return live_processes(folders, recorded(cluster))


def live_processes(folders: list[bytes], known: dict[int, int]) -> dict[int, bool]:
    """Find the live processes that name one of the folders or are `known`, and all that these have started."""
    found: dict[int, bool] = {}
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        try:
            pid = int(name)
            with open(f"/proc/{pid}/stat", "rb") as file:
                text = file.read()
            fields = text[text.rindex(b")") + 2 :].split()
            if fields[0] in (b"Z", b"X") or os.stat(f"/proc/{pid}").st_uid != os.geteuid() or pid == os.getpid():
                continue
            parents[pid] = int(fields[1])
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except (OSError, ValueError):
            continue  # it has just ended, or is none
        own = any(item.startswith(b"DTF") and names(item, folders) for item in variables)
        if names(command, folders) or own or known.get(pid) == int(fields[19]):
            found[pid] = b"dtfctl.launcher.agent" in command
    more = True
    while more:
        more = False
        for pid, parent in parents.items():
            if parent in found and pid not in found:
                found[pid], more = False, True
    return found


def names(text: bytes, folders: list[bytes]) -> bool:
    """Tell whether one of the folders, or what is in it, is named."""
    ends = (b"", b"/", b"\0", b" ")
    return any(text[at + len(folder) :][:1] in ends for folder in folders if (at := text.find(folder)) >= 0)


def recorded(cluster: str) -> dict[int, int]:
    """Read the processes that agents of a cluster have noted: pid and start time."""
    found: dict[int, int] = {}
    hosts = os.path.join(BASE, "clusters", cluster, "hosts")
    for host in entries(hosts):
        info = find(cluster, host)
        if info is not None:
            found[info["pid"]] = info["start_ticks"]
        try:
            records = json.loads(read_mark(os.path.join(hosts, host, "state.json")))["records"].values()
        except (ValueError, KeyError):
            continue
        for record in records:
            for kind in ("keeper", "task"):
                if record.get(f"{kind}_pid"):
                    found[record[f"{kind}_pid"]] = record[f"{kind}_ticks"]
    return found


def clean(cluster: str, host: str, **_: Any) -> dict[str, Any]:
    """Remove this host's own files, and the last of those that share them also what is all hosts'.

    Logs and checkpoints stay, and what another host has made, which may be about to use what is still empty.
    """
    import shutil

    folder = os.path.join(BASE, "clusters", cluster)
    hosts, keys = os.path.join(folder, "hosts"), os.path.join(folder, "certificates")
    own = os.path.join(hosts, host)
    forget_sockets(own)
    shutil.rmtree(own, ignore_errors=True)
    for name in entries(keys):
        if name.startswith((f"agent-{host}.", f"task-{host}.")):
            remove(os.path.join(keys, name))
    with alone_in(folder):
        if not entries(hosts):
            shutil.rmtree(keys, ignore_errors=True)
            remove(stamp_path(cluster))
            for path, _folders, _files in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # something is in it that stays
                    os.rmdir(path)
    return {}


def forget_sockets(own: str) -> None:
    """Remove the folder of sockets that an agent may have made elsewhere, because its own path was too long."""
    import shutil

    try:
        sockets = json.loads(read_mark(os.path.join(own, "state.json")))["socket_folder"]
    except (ValueError, KeyError):
        return
    if os.path.basename(sockets).startswith("dtf-"):
        shutil.rmtree(sockets, ignore_errors=True)


def clusters_here(cluster: str, owner: dict[str, Any] | None, force: bool) -> list[str]:
    """List the clusters that are meant: that one, or all of this account; refuse those that are another's."""
    names: set[str] = {cluster} if cluster else set()
    for way in () if cluster else ((), ("controllers",)):
        folder = os.path.join(BASE, *way, "clusters")
        names.update(entries(folder))
    for name in sorted(names):
        stamp = read_stamp(name)
        is_ours = stamp is None or any(all(stamp[key] == mine[key] for key in mine) for mine in ownerships(owner))
        if not (force or is_ours):
            raise Trouble("owner", foreign(name, stamp or {}, owner or {})[0], "its owner can end it; or: --force")
    return sorted(names)


def end_controllers(
    cluster: str, owner: dict[str, Any] | None, force: bool, drop: bool = False, **_: Any
) -> dict[str, Any]:
    """End the controllers of the cluster (without a name: of any) here, and lock out those of other hosts.

    Tells how many processes were ended. What else runs goes on. `drop`: what it knew of the cluster goes; files of
    jobs and logs stay.
    """
    ended: set[int] = set()
    for name in clusters_here(cluster, owner, force):
        forget_key(key_of(name))
        deadline = time.monotonic() + END_S
        while found := controllers_of(name):
            if time.monotonic() > deadline:
                raise Trouble("agent", f"the controller of {name} does not end: {', '.join(map(str, found))}")
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                ended.add(pid)
            time.sleep(POLL_S)
        if drop:
            drop_controller(os.path.join(BASE, "controllers", "clusters", name))
    return {"ended": len(ended)}


def drop_controller(folder: str) -> None:
    """Drop what a controller knew, so that another owner's may be put there."""
    import shutil

    for name in entries(folder):
        path = os.path.join(folder, name)
        if name in ("certificates", "login", "run", "hosts", "studies"):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.isfile(path) and name != "job-ids.json":
            remove(path)


def controllers_of(cluster: str) -> list[int]:
    """List the live controllers of a cluster; first the shells that would start them again, and so would dashboards."""
    folder = os.fsencode(os.path.join(BASE, "controllers", "clusters", cluster))
    found: list[tuple[bool, int]] = []
    for name in os.listdir("/proc"):
        try:
            pid = int(name)
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
            if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
        except (OSError, ValueError):
            continue  # it has just ended, or is none
        if any(program in command for program in CONTROLLERS) and names(command, [folder]):
            found.append((b"dtfctl.dashboard" not in command and b"until" not in command, pid))
    return [pid for _, pid in sorted(found)]


def clean_all(cluster: str, owner: dict[str, Any] | None, force: bool, logs: str = "", **_: Any) -> dict[str, Any]:
    """End and delete all of a cluster; without a name, all of dtfctl. What was ended, and how many files there were.

    `logs`: the folder of the cluster's logs, where its file names one.
    """
    import shutil

    clusters = os.path.join(BASE, "clusters")
    ended, was_there = 0, False
    for name in clusters_here(cluster, owner, force):
        folders = [os.path.join(clusters, name), os.path.join(BASE, "controllers", "clusters", name)]
        was_there = was_there or any(os.path.isdir(folder) for folder in folders)
        ended += evict(name)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    if not cluster:
        was_there = was_there or os.path.isdir(BASE)
        shutil.rmtree(BASE, ignore_errors=True)
    if logs:
        folder = os.path.expanduser(logs)
        was_there = was_there or os.path.isdir(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return {"ended": ended, "was_there": was_there}


def ownerships(owner: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Choose what of a stamp makes a cluster this owner's: its authority; or, where that is lost, who and where."""
    if owner is None:
        return []
    place = {key: owner[key] for key in ("user", "machine", "folder")}
    return [{"authority": owner["authority"]}, place] if owner["authority"] else [place]
