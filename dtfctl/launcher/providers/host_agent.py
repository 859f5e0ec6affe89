"""On a host: its agent is found, started, asked after and ended; see `host_side.py`."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time

from dtfctl.launcher.providers import host_offers
from dtfctl.launcher.providers.host_base import BASE, POLL_S, Trouble, private, write_whole
from dtfctl.launcher.providers.host_python import Tried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

START_S = 60.0


def folder_of(cluster: str, host: str) -> str:
    return private("clusters", cluster, "hosts", host)


def start_ticks(pid: int) -> int | None:
    """Read when a live process started, in clock ticks since the boot; None where it is gone: a zombie is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def find(cluster: str, host: str) -> dict[str, Any] | None:
    """Read the running agent's description, or None."""
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
    """Put certificates into their folder and return it; keys come first. An agent that runs reads them again."""
    keys = private("clusters", cluster, "certificates")
    for name in sorted(certificates, key=lambda name: not name.endswith(".key")):
        write_whole(os.path.join(keys, os.path.basename(name)), certificates[name].encode())
    return keys


def start(
    cluster: str, host: str, tried: Tried | None, address: str, certificates: dict[str, str], arguments: list[str]
) -> dict[str, Any]:
    """Start the agent and wait until it can be called.

    Args:
        tried: the process that becomes it; none: a fork of this one does, which is of the same runtime.
    """
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
            child, news = start_process(tried, words, log, held)
            os.close(held)
        if time.monotonic() > deadline:
            raise Trouble("agent", f"its agent did not start within {START_S:.0f} s (see {log})")
        if news >= 0:
            select.select([news], [], [], START_S)  # it is closed when there is something to see
            os.close(news)
            news = -1
        else:
            time.sleep(POLL_S)


def start_process(tried: Tried | None, words: list[str], log: str, lock: int) -> tuple[int, int]:
    """Start an agent in a session of its own: its pid, and a pipe that it closes when it can be called, or ends."""
    news, ready = os.pipe()
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    fds = (lock, ready, output, nothing)
    child = tried.become_agent(words, fds) if tried is not None else os.fork()
    if child:
        for fd in fds[1:]:
            os.close(fd)
        return child, news
    try:
        os.close(news)
        host_offers.let_go()
        from dtfctl.launcher.providers.agent_process import become_agent

        become_agent(words, fds)
    except BaseException as error:  # it must not go on as a second one of what it is a fork of
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def hangs(info: dict[str, Any], limit_s: float) -> bool:
    """Tell whether a process itself shows that its loop does not turn; as `launcher/system/pulse.py`."""
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
