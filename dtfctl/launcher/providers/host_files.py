"""On a host: the files that are synchronised to it, and the commands that set it up; see `host_side.py`."""

from __future__ import annotations

import os

from dtfctl.launcher.providers.host_base import (
    Needs,
    Trouble,
    facts,
    private,
    read_mark,
    say,
    write_mark,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def home_path(path: str) -> str:
    path = os.path.expanduser(path)
    return path if os.path.isabs(path) else os.path.join(os.path.expanduser("~"), path)


def mark_of(to: str) -> str:
    import hashlib

    return os.path.join(private("sync"), hashlib.sha256(home_path(to).encode()).hexdigest()[:32])


def unpack_sync(archive: str, to: str, hash: str, single: bool, **_: Any) -> None:
    """Unpack the files of a tar to `to`; those of the last synchronisation that are no more in it go away."""
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
    """Run the commands in turn, once per hash; their output goes to logs/setup.log."""
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
    """List the entries of `sync` whose content is another one here."""
    return [f"sync:{at}" for at, item in enumerate(sync) if read_mark(mark_of(item["to"])) != item["hash"]]


def set_up(cluster: str, sync: list[dict[str, str]], setup: dict[str, Any]) -> None:
    if setup["commands"]:
        cwd = home_path(sync[0]["to"]) if sync and os.path.isdir(home_path(sync[0]["to"])) else os.path.expanduser("~")
        run_setup(cluster, setup, cwd)


def files(cluster: str, sync: list[dict[str, str]], setup: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Make the files and what was set up as the spec says, whether or not the agent runs; or say what to send."""
    private()
    missing = missing_files(sync)
    if missing:
        private("tmp")
        raise Needs({"need": missing, "facts": facts()})
    set_up(cluster, sync, setup)
    return {}
