"""The launcher's hands on a host: read over SSH's stdin by any Python >= 3.11 there, so it imports nothing of dtfctl
but its own parts, `host_*.py`, which come with it (`conversation.py`). Where dtfctl has been sent already its own
Python runs it, compiled, and the agent is a fork of it: on a host that has all it needs nearly all that `up` costs is
importing, which is then done once. What few hosts need is imported there.

A request is one line of JSON, `{"do": NAME, ...}`, a reply one line `dtfctl:{...}`; other output (of a shell's start
files) is not a reply. Replies with `stage` come in between; the last one of a request has `done`, `need` or `error`.

    ~/.dtfctl/                                    0700
      layers/HASH/        dtfctl and what it depends on, unpacked; shared by clusters
      runtime/HASH/       a virtual environment of one Python that leads to its layers
      sync/HASH, setup/   marks of what was synchronised and set up
      tmp/                uploads on their way
      clusters/NAME/      certificates/, hosts/HOST/, logs/, jobs/ of one cluster
"""

from __future__ import annotations

import _imp
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time

from dtfctl.launcher.providers import host_layers, host_offers
from dtfctl.launcher.providers.host_base import BASE, Trouble, private, read_mark, say, write_mark, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

POLL_S = 0.01
START_S = 60.0
HOSTED_S = 60.0
END_S = 10.0
FAILED_EXIT = 98
LONGEST_IDLE_S = 120
"""Without a request; who needs the connection for longer asks for nothing now and then."""


class Needs(Exception):
    """What has to be sent first."""


def home_path(path: str) -> str:
    path = os.path.expanduser(path)
    return path if os.path.isabs(path) else os.path.join(os.path.expanduser("~"), path)


def facts() -> dict[str, Any]:
    came_from, _, address, port = (os.environ.get("SSH_CONNECTION") or "   22").split(" ")[:4]
    disk = os.statvfs(BASE if os.path.isdir(BASE) else os.path.expanduser("~"))
    names = {"cpython": "CPython", "pypy": "PyPy"}
    runtimes, gpus = os.path.join(BASE, "runtime"), "/proc/driver/nvidia/gpus"
    return {
        "runtimes": os.listdir(runtimes) if os.path.isdir(runtimes) else [],
        "python": sys.version.split()[0],
        "implementation": names.get(sys.implementation.name, sys.implementation.name),
        "machine": os.uname().machine,
        "libc": libc(),
        "abi": _imp.extension_suffixes()[0],
        "executable": os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable),
        "base": BASE,
        "came_from": came_from,
        "address": address,
        "port": int(port),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "hostname": os.uname().nodename,
        "cores": os.cpu_count() or 1,
        "gpus": len(os.listdir(gpus)) if os.path.isdir(gpus) else 0,
        "clock": time.time(),
    }


def libc() -> list[str]:
    """Name and version; empty where it is not GNU's."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or " ").split(" ")[:2]
    except (ValueError, OSError):
        return ["", ""]


# ---------------------------------------------------------------- files and set-up


def mark_of(to: str) -> str:
    import hashlib

    return os.path.join(private("sync"), hashlib.sha256(home_path(to).encode()).hexdigest()[:32])


def unpack_sync(archive: str, to: str, hash: str, single: bool, **_: Any) -> None:
    """Files of a tar go to `to`; those of the last synchronisation that are no more in it go away."""
    import tarfile

    target = home_path(to)
    listing = mark_of(to) + ".files"
    before = set(read_mark(listing).splitlines())
    try:
        os.unlink(mark_of(to)) if os.path.exists(mark_of(to)) else None
        with tarfile.open(archive) as tar:
            names = [member.name for member in tar.getmembers()]
            where = os.path.dirname(target) if single else target
            os.makedirs(where, exist_ok=True)
            # The archive is the user's own; early releases of 3.11 have no filters yet.
            trusted: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
            tar.extractall(where, **trusted)
        base = os.path.dirname(target) if single else target
        for name in sorted(before - set(names), reverse=True):
            path = os.path.join(base, name)
            if os.path.isdir(path) and not os.path.islink(path):
                try:
                    os.rmdir(path)
                except OSError:
                    continue  # it holds files of somebody else
            elif os.path.lexists(path):
                os.unlink(path)
        write_mark(listing, "\n".join(names))
        write_mark(mark_of(to), hash)
    finally:
        os.unlink(archive)


def run_setup(cluster: str, setup: dict[str, Any], cwd: str) -> None:
    """The commands in turn, once per hash; their output goes to logs/setup.log."""
    import hashlib
    import subprocess

    mark = os.path.join(private("setup"), hashlib.sha256(cluster.encode()).hexdigest()[:32])
    if read_mark(mark) == setup["hash"]:
        return
    say(stage="setup", detail="")
    log = os.path.join(private("clusters", cluster, "logs"), "setup.log")
    for number, command in enumerate(setup["commands"], start=1):
        say(stage="setup", detail=f"{number}/{len(setup['commands'])} {command}"[:200])
        with open(log, "ab") as file:
            file.write(f"$ {command}\n".encode())
            file.flush()
            begun = file.tell()
            environment = {**os.environ, **setup["env"]}
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=cwd,
                env=environment,
                check=False,
            )
        if done.returncode != 0:
            with open(log, "rb") as file:
                file.seek(begun)
                lines = file.read()[-4000:].decode(errors="replace").strip().splitlines()
            said = f": {lines[-1][:300]}" if lines else ""
            raise Trouble("setup", f"`{command}` ended with {done.returncode}{said} (see {log})")
    write_mark(mark, setup["hash"])


def missing_files(sync: list[dict[str, str]]) -> list[str]:
    """The entries of `sync` whose content is another one here."""
    return [f"sync:{at}" for at, item in enumerate(sync) if read_mark(mark_of(item["to"])) != item["hash"]]


def set_up(cluster: str, sync: list[dict[str, str]], setup: dict[str, Any]) -> None:
    if setup["commands"]:
        cwd = home_path(sync[0]["to"]) if sync and os.path.isdir(home_path(sync[0]["to"])) else os.path.expanduser("~")
        run_setup(cluster, setup, cwd)


# ---------------------------------------------------------------- whose it is


def stamp_path(cluster: str) -> str:
    return os.path.join(BASE, "clusters", cluster, "owner.json")


def read_stamp(cluster: str) -> dict[str, Any] | None:
    """Whose the cluster of that name is here; None when it is nobody's."""
    try:
        stamp: dict[str, Any] = json.loads(read_mark(stamp_path(cluster)))
    except ValueError:
        return None
    return stamp


def check_owner(request: dict[str, Any]) -> None:
    """A cluster is touched by its owner alone, which its authority names."""
    owner = request.get("owner")
    if owner is None or request["do"] in ("adopt", "clean_all"):
        return
    cluster = request["cluster"]
    stamp = read_stamp(cluster)
    if stamp is None or stamp["authority"] == owner["authority"]:
        return
    if stamp["authority"] in owner["given_up"]:
        evict(cluster)
        return
    raise Trouble("owner", *foreign(cluster, stamp, owner))


def foreign(cluster: str, stamp: dict[str, Any], owner: dict[str, Any]) -> tuple[str, str]:
    """What to say to somebody whose cluster it is not, and a hint."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(stamp["since"]))
    if all(stamp[key] == owner[key] for key in ("user", "machine", "folder")):
        text = f"cluster {cluster} there is yours, of {since}, but its files here are gone"
        return text, "take it over: dtfctl up FILE --adopt; or end it: dtfctl hosts clean FILE"
    whose = f"{stamp['user']}@{stamp['machine']} ({stamp['folder']}, since {since})"
    return (
        f"cluster {cluster} there belongs to {whose}",
        "use another name, or take it over: dtfctl up FILE --adopt",
    )


def take_stamp(cluster: str, owner: dict[str, Any]) -> None:
    """From now on it is this owner's; of several who come at once the first is."""
    private("clusters", cluster)
    path = stamp_path(cluster)
    fresh = f"{path}.{os.getpid()}"
    stamp = {key: value for key, value in owner.items() if key != "given_up"}
    write_whole(fresh, json.dumps(stamp).encode())
    try:
        os.link(fresh, path)
    except FileExistsError:
        check_owner({"do": "stamp", "cluster": cluster, "owner": owner})
    finally:
        os.unlink(fresh)


def adopt(cluster: str, host: str, owner: dict[str, Any], **_: Any) -> dict[str, Any]:
    """The cluster is this owner's from now on, and its agent listens to nobody else: what it kept, whose it was and
    what its tasks trust. They go on, with the certificates that they have."""
    folder = os.path.join(BASE, "clusters", cluster)
    own = os.path.join(folder, "hosts", host)
    if not os.path.isdir(own):
        others = os.listdir(os.path.dirname(own)) if os.path.isdir(os.path.dirname(own)) else []
        if others:
            raise Trouble("owner", f"cluster {cluster} knows it as {', '.join(others)}", "name it so in FILE")
        return {"found": False}
    keys = os.path.join(folder, "certificates")
    with open(os.path.join(folder, "adopt.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = read_stamp(cluster)
        ours = stamp is not None and stamp["authority"] == owner["authority"]
        if not ours:
            kill(cluster, host, 0.0)
            for name in [name for name in os.listdir(keys) if name.startswith("agent-")]:
                os.unlink(os.path.join(keys, name))
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
    for host in os.listdir(os.path.join(folder, "hosts")) if os.path.isdir(os.path.join(folder, "hosts")) else ():
        forget_sockets(os.path.join(folder, "hosts", host))
    for name in ("hosts", "certificates"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    if os.path.exists(stamp_path(cluster)):
        os.unlink(stamp_path(cluster))
    return ended


def end_processes(cluster: str) -> int:
    """Kill what runs of a cluster, agents first; how many processes there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + END_S
    while True:
        found = processes_of(cluster)
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
    """Live processes of a cluster, each with whether it is an agent: those in its records, those whose command line or
    variables name its folder, and all that these have started."""
    folders = [os.fsencode(os.path.join(BASE, *way, "clusters", cluster)) for way in ((), ("controllers",))]
    known = recorded(cluster)
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
    """Whether one of the folders, or what is in it, is named."""
    ends = (b"", b"/", b"\0", b" ")
    return any(text[at + len(folder) :][:1] in ends for folder in folders if (at := text.find(folder)) >= 0)


def recorded(cluster: str) -> dict[int, int]:
    """Processes that agents of a cluster have noted: pid and start time."""
    found: dict[int, int] = {}
    hosts = os.path.join(BASE, "clusters", cluster, "hosts")
    for host in os.listdir(hosts) if os.path.isdir(hosts) else ():
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


# ---------------------------------------------------------------- the agent


def folder_of(cluster: str, host: str) -> str:
    return private("clusters", cluster, "hosts", host)


def start_ticks(pid: int) -> int | None:
    """Of a live process, else None; a zombie is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def find(cluster: str, host: str) -> dict[str, Any] | None:
    """The running agent's description, or None."""
    try:
        with open(os.path.join(BASE, "clusters", cluster, "hosts", host, "agent.json"), encoding="utf-8") as file:
            info: dict[str, Any] = json.load(file)
        return info if start_ticks(info["pid"]) == info["start_ticks"] else None
    except (OSError, ValueError, KeyError):
        return None


def try_lock(path: str) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def last_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            lines = file.read()[-4000:].decode(errors="replace").strip().splitlines()
    except FileNotFoundError:
        return "it wrote no log"
    return lines[-1][:500] if lines else "its log is empty"


def put_certificates(cluster: str, certificates: dict[str, str]) -> str:
    """The folder they are in; a key comes before what is signed with it. An agent that runs reads them again."""
    keys = private("clusters", cluster, "certificates")
    for name in sorted(certificates, key=lambda name: not name.endswith(".key")):
        write_whole(os.path.join(keys, os.path.basename(name)), certificates[name].encode())
    return keys


def start(
    cluster: str, host: str, python: str, address: str, certificates: dict[str, str], arguments: list[str]
) -> dict[str, Any]:
    folder = folder_of(cluster, host)
    logs = private("clusters", cluster, "logs")
    keys = put_certificates(cluster, certificates)
    log = os.path.join(logs, f"agent-{host}.log")
    own = f"[{address}]" if ":" in address else address
    words = ["--cluster", cluster, "--host", host, "--folder", folder, "--logs", logs, "--certificates", keys]
    words += ["--listen", own, "--advertise", own, *arguments]
    deadline = time.monotonic() + START_S
    child, news = 0, -1
    while True:
        info = find(cluster, host)
        if info is not None:
            return info
        if child and os.waitpid(child, os.WNOHANG)[0]:
            raise Trouble("agent", f"its agent ended at once: {last_line(log)} (see {log})")
        held = try_lock(os.path.join(folder, "agent.lock")) if not child else None
        if held is not None:
            child, news = start_process(python, words, log, held)
            os.close(held)
        if time.monotonic() > deadline:
            raise Trouble("agent", f"its agent did not start within {START_S:.0f} s (see {log})")
        if news >= 0:
            select.select([news], [], [], START_S)  # it is closed when there is something to see
            os.close(news)
            news = -1
        else:
            time.sleep(POLL_S)


def start_process(python: str, words: list[str], log: str, lock: int) -> tuple[int, int]:
    """An agent in a session of its own: its pid, and a pipe that it closes when it can be called, or by ending."""
    news, ready = os.pipe()
    command = [python, "-m", "dtfctl.launcher.agent", *words, "--lock-fd", str(lock), "--ready-fd", str(ready)]
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    child = os.fork()
    if child:
        for fd in (output, nothing, ready):
            os.close(fd)
        return child, news
    try:
        os.close(news)
        host_offers.let_go()
        os.setsid()
        os.chdir("/")
        for at, fd in enumerate((nothing, output, output)):
            os.dup2(fd, at)
        for name in [name for name in os.environ if name.startswith("SSH_")]:
            del os.environ[name]
        if python == sys.executable:
            from dtfctl.launcher.agent.fork import become_agent

            become_agent(command)
        for fd in (lock, ready):
            os.set_inheritable(fd, True)
        os.execv(python, command)
    except BaseException as error:  # it must not go on as a second one of what it is a fork of
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


# ---------------------------------------------------------------- requests


def look(cluster: str, host: str, **_: Any) -> dict[str, Any]:
    """What this host is, and its agent if one runs; changes nothing."""
    return {"facts": facts(), "agent": find(cluster, host)}


def files(cluster: str, sync: list[dict[str, str]], setup: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Make the files and what was set up as the spec says, whether or not the agent runs; or say what to send."""
    private()
    missing = missing_files(sync)
    if missing:
        private("tmp")
        raise Needs({"need": missing, "facts": facts()})
    set_up(cluster, sync, setup)
    return {}


def ensure(
    cluster: str,
    host: str,
    runtime: str,
    layers: list[dict[str, Any]],
    sync: list[dict[str, str]],
    setup: dict[str, Any],
    python: str,
    certificates: dict[str, str],
    arguments: list[str],
    address: str,
    owner: dict[str, Any],
    **_: Any,
) -> dict[str, Any]:
    """Make the host what the spec says and start the agent; or say what has to be sent first."""
    private()
    known = facts()
    # What runs does not need it; and to look at thousands of files takes a while on some disks.
    missing = host_layers.missing_layers(layers, thorough=find(cluster, host) is None)
    missing += missing_files(sync)
    if missing:
        private("tmp")
        raise Needs({"need": missing, "facts": known})
    host_layers.make_runtime(runtime, layers)
    host_layers.note_use(runtime, layers)
    set_up(cluster, sync, setup)
    if python:
        check_python(python)
    take_stamp(cluster, owner)
    info = find(cluster, host)
    if info is None:
        say(stage="starting", detail="")
        info = start(
            cluster, host, host_layers.python_of(runtime), address or known["address"], certificates, arguments
        )
    else:
        put_certificates(cluster, certificates)
    return {"facts": known, "agent": info}


# ---------------------------------------------------------------- a controller that runs here


def controller(runtime: str, layers: list[dict[str, Any]], request: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Let this host's dtfctl do something about the controller that runs here; see `controller/hosted.py`."""
    import subprocess

    private()
    missing = host_layers.missing_layers(layers, thorough=request["do"] == "start")
    if missing:
        private("tmp")
        raise Needs({"need": missing, "facts": facts()})
    host_layers.make_runtime(runtime, layers)
    host_layers.note_use(runtime, layers)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SSH_")}
    environment["DTFCTL_HOME"] = private("controllers")
    done = subprocess.run(
        [host_layers.python_of(runtime), "-m", "dtfctl.launcher.controller.hosted"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=HOSTED_S,
        cwd="/",
        env=environment,
        check=False,
    )
    try:
        return {"reply": json.loads(done.stdout)}
    except ValueError:
        said = (done.stderr.strip() or "it said nothing").splitlines()[-1][:500]
        raise Trouble("agent", f"its controller cannot be asked: {said}") from None


def authorized_keys() -> str:
    folder = os.path.expanduser("~/.ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.realpath(os.path.join(folder, "authorized_keys"))


def authorize(line: str, **_: Any) -> dict[str, Any]:
    """Let the holder of a key in as this user."""
    private("tmp")
    path = authorized_keys()
    with open(os.path.join(BASE, "authorized.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = read_mark(path)
        if line not in text.splitlines():
            with open(path, "a", encoding="utf-8") as file:
                file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")
    return {"facts": facts()}


def forbid(line: str, **_: Any) -> dict[str, Any]:
    """No longer."""
    path = authorized_keys()
    with open(os.path.join(private(), "authorized.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = read_mark(path).splitlines()
        if line in lines:
            mode = os.stat(path).st_mode & 0o777
            write_whole(path, "".join(f"{kept}\n" for kept in lines if kept != line).encode(), mode)
    return {}


def check_python(python: str) -> None:
    """The user's own interpreter runs and is new enough."""
    import shutil
    import subprocess

    path = os.path.expanduser(python)
    if not os.path.exists(path) and shutil.which(path) is None:
        raise Trouble("python", f"`python: {python}` is not there")
    code = "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'it is Python ' + sys.version.split()[0])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble("python", f"`python: {python}` cannot be used: {(done.stderr.strip() or 'it fails')[-200:]}")


def hangs(info: dict[str, Any], limit_s: float) -> bool:
    """Whether a process itself shows that its loop does not turn; as `launcher/pulse.py`."""
    import struct

    try:
        with open(f"/proc/{info['pid']}/stat", "rb") as file:
            if file.read().rpartition(b")")[2].split()[0] in (b"T", b"t"):
                return True
        with open(f"/proc/{info['pid']}/fd/{info['pulse']}", "rb") as memory:
            turned = struct.unpack("=d", memory.read(8))[0]
    except (OSError, KeyError, struct.error):
        return False
    return time.monotonic() - float(turned) > limit_s


def kill(cluster: str, host: str, hangs_s: float, **_: Any) -> dict[str, Any]:
    """End the agent; where there is a limit only if its loop has not turned for so long."""
    info = find(cluster, host)
    if info is not None and hangs_s and not hangs(info, hangs_s):
        return {"ended": False}
    if info is not None:
        os.kill(info["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while start_ticks(info["pid"]) == info["start_ticks"] and time.monotonic() < deadline:
            time.sleep(POLL_S)
    return {"ended": True}


def wait_ended(cluster: str, host: str, timeout_s: float, **_: Any) -> dict[str, Any]:
    lock = os.path.join(BASE, "clusters", cluster, "hosts", host, "agent.lock")
    deadline = time.monotonic() + timeout_s
    while os.path.exists(lock):
        held = try_lock(lock)
        if held is not None:
            os.close(held)
            break
        if time.monotonic() > deadline:
            return {"ended": False}
        time.sleep(POLL_S)
    return {"ended": True}


def clean(cluster: str, host: str, **_: Any) -> dict[str, Any]:
    """This host's own files go, then what is empty; logs and checkpoints stay."""
    import shutil

    folder = os.path.join(BASE, "clusters", cluster)
    own = os.path.join(folder, "hosts", host)
    forget_sockets(own)
    shutil.rmtree(own, ignore_errors=True)
    keys = os.path.join(folder, "certificates")
    for name in os.listdir(keys) if os.path.isdir(keys) else ():
        if name.startswith((f"agent-{host}.", f"task-{host}.")):
            os.unlink(os.path.join(keys, name))
    hosts = os.path.join(folder, "hosts")
    if not os.path.isdir(hosts) or not os.listdir(hosts):
        shutil.rmtree(keys, ignore_errors=True)
        if os.path.exists(stamp_path(cluster)):
            os.unlink(stamp_path(cluster))
    for path, _folders, _files in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            continue  # something is in it that stays
    return {}


def forget_sockets(own: str) -> None:
    """The folder of sockets that an agent may have made elsewhere, because its own path was too long."""
    import shutil

    try:
        sockets = json.loads(read_mark(os.path.join(own, "state.json")))["socket_folder"]
    except (ValueError, KeyError):
        return
    if os.path.basename(sockets).startswith("dtf-"):
        shutil.rmtree(sockets, ignore_errors=True)


def clean_all(cluster: str, owner: dict[str, Any] | None, force: bool, **_: Any) -> dict[str, Any]:
    """End and delete all of a cluster; without a name, all of dtfctl. What was ended, and how many files there were."""
    import shutil

    clusters = os.path.join(BASE, "clusters")
    names = [cluster] if cluster else sorted(os.listdir(clusters) if os.path.isdir(clusters) else ())
    for name in names:
        stamp = read_stamp(name)
        is_ours = stamp is None or any(all(stamp[key] == mine[key] for key in mine) for mine in ownerships(owner))
        if not (force or is_ours):
            raise Trouble("owner", foreign(name, stamp or {}, owner or {})[0], "its owner can end it; or: --force")
    ended, was_there = 0, False
    for name in names:
        folders = [os.path.join(clusters, name), os.path.join(BASE, "controllers", "clusters", name)]
        was_there = was_there or any(os.path.isdir(folder) for folder in folders)
        ended += evict(name)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        forget_key(f"dtfctl-{name}")
    if not cluster:
        was_there = was_there or os.path.isdir(BASE)
        shutil.rmtree(BASE, ignore_errors=True)
    return {"ended": ended, "was_there": was_there}


def ownerships(owner: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What of a stamp makes a cluster this owner's: its authority; or, where that is lost, who and where."""
    if owner is None:
        return []
    place = {key: owner[key] for key in ("user", "machine", "folder")}
    return [{"authority": owner["authority"]}, place] if owner["authority"] else [place]


def forget_key(comment: str) -> None:
    """Lock out the key of a controller that ran on a host."""
    path = authorized_keys()
    for line in read_mark(path).splitlines():
        if line.endswith(f" {comment}"):
            forbid(line)


def nothing(**_: Any) -> None:
    """Somebody is still there."""


REQUESTS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "nothing": nothing,
    "look": look,
    "ensure": ensure,
    "files": files,
    **host_layers.REQUESTS,
    **host_offers.REQUESTS,
    "unpack_sync": unpack_sync,
    "controller": controller,
    "authorize": authorize,
    "forbid": forbid,
    "kill": kill,
    "adopt": adopt,
    "clean_all": clean_all,
    "wait_ended": wait_ended,
    "clean": clean,
}


def serve(unread: int = 0) -> None:
    """Answer requests until there are no more.

    Args:
        unread: what stands before them: the source of this program, which was not needed.
    """
    try:
        answer(unread)
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(FAILED_EXIT)  # not as a Python ends that cannot import this
    finally:
        host_offers.forget()


def answer(unread: int) -> None:
    """The conversation."""
    sys.stdin.buffer.read(unread)
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    say(hello=1)
    while True:
        signal.alarm(LONGEST_IDLE_S)  # where a link broke nobody tells this end of it
        line = sys.stdin.buffer.readline()
        signal.alarm(0)
        if not line:
            return
        request = json.loads(line)
        try:
            check_owner(request)
            say(done=True, **(REQUESTS[request["do"]](**request) or {}))
        except Needs as needs:
            say(**needs.args[0])
        except Trouble as trouble:
            say(error=trouble.args[1], cause=trouble.args[0], hint=trouble.args[2] if trouble.args[2:] else "")
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            what = "no space left on the disk" if full else (error.strerror or str(error)).lower()
            where = f" at {error.filename}" if error.filename else f" below {BASE}" if full else ""
            say(error=what + where, cause="disk" if full else "install")
        except Exception as error:  # a fault in here must be told, not end the conversation without a word
            say(error=f"{type(error).__name__}: {error} (while it was asked to {request['do']})", cause="install")


if __name__ == "__main__":
    serve()
