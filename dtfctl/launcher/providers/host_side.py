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

import errno
import json
import os
import signal
import sys

from dtfctl.launcher.providers import host_layers, host_offers, host_step
from dtfctl.launcher.providers.host_agent import find, kill, put_certificates, start, wait_ended
from dtfctl.launcher.providers.host_base import (
    BASE,
    Needs,
    Trouble,
    facts,
    private,
    say,
)
from dtfctl.launcher.providers.host_files import files, missing_files, set_up, unpack_sync
from dtfctl.launcher.providers.host_keys import authorize, forbid
from dtfctl.launcher.providers.host_owner import (
    adopt,
    check_owner,
    clean,
    clean_all,
    end_controllers,
    end_strays,
    settle,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HOSTED_S = 60.0
FAILED_EXIT = 98
LONGEST_IDLE_S = 120
"""Without a request; who needs the connection for longer asks for nothing now and then."""


def look(cluster: str, host: str, **_: Any) -> dict[str, Any]:
    """Tell what this host is, and its agent if one runs; changes nothing."""
    return {"facts": facts(), "agent": find(cluster, host)}


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
    tried = host_layers.make_runtime(runtime, layers)
    try:
        host_layers.note_use(runtime, layers)
        set_up(cluster, sync, setup)
        if python:
            check_python(python)
        settle(cluster, host, owner)
        info = find(cluster, host)
        if info is None:
            say(stage="starting", detail="")
            end_strays(cluster, host)
            info = start(cluster, host, tried, address or known["address"], certificates, arguments)
        else:
            put_certificates(cluster, certificates)
    finally:
        if tried is not None:
            tried.end()
    return {"facts": known, "agent": info}


def check_python(python: str) -> None:
    """Check that the user's own interpreter runs and is new enough."""
    import shutil
    import subprocess

    path = os.path.expanduser(python)
    if not os.path.exists(path) and shutil.which(path) is None:
        raise Trouble("python", f"`python: {python}` is not there")
    code = "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'it is Python ' + sys.version.split()[0])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble("python", f"`python: {python}` cannot be used: {(done.stderr.strip() or 'it fails')[-200:]}")


def controller(runtime: str, layers: list[dict[str, Any]], request: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Let this host's dtfctl do something about the controller that runs here; see `operator/on_controller_host.py`."""
    import subprocess

    private()
    missing = host_layers.missing_layers(layers, thorough=request["do"] == "start")
    if missing:
        private("tmp")
        raise Needs({"need": missing, "facts": facts()})
    tried = host_layers.make_runtime(runtime, layers)
    if tried is not None:
        tried.end()
    host_layers.note_use(runtime, layers)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SSH_")}
    environment["DTFCTL_HOME"] = private("controllers")
    done = subprocess.run(
        [host_layers.python_of(runtime), "-m", "dtfctl.launcher.operator.on_controller_host"],
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


def nothing(**_: Any) -> None:
    """Take the sign that somebody is still there."""


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
    "end_controllers": end_controllers,
    "wait_ended": wait_ended,
    "clean": clean,
}


def serve(unread: int = 0) -> None:
    """Answer requests until there are no more.

    Args:
        unread: what stands before them: the source of this program, which was not needed.
    """
    host_step.hold()
    try:
        answer(unread)
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(FAILED_EXIT)  # not as a Python ends that cannot import this
    finally:
        host_offers.forget()


def answer(unread: int) -> None:
    """Hold the conversation: answer requests until there are no more."""
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
