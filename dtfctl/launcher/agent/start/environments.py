"""Virtual environments for jobs that ask for packages: made once for each set of requirements and Python, then reused.

    ENVIRONMENTS/KEY/            a virtual environment of the cluster's Python that sees what that Python has
    ENVIRONMENTS/KEY/ready       made last: how large it is; its time is when it was last used
    ENVIRONMENTS/KEY.lock        held by who makes it

Clusters of this user share them, as they share dtfctl itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dtfctl.launcher.agent.start.interpreter import Interpreter, ask, find_uv, index_answers
from dtfctl.launcher.errors import ClusterFailed
from dtfctl.launcher.messages.looks import Examination
from dtfctl.launcher.messages.orders import Packages
from dtfctl.launcher.system.files import explained, private_folder, write_whole
from dtfctl.launcher.system.procfs import runs_from
from dtfctl.launcher.transfer.blobs import Blobs
from dtfctl.launcher.transfer.packages import kind_of
from dtfctl.values import value

log = logging.getLogger(__name__)

INSTALL_S = 1800.0
UNUSED_S = 14 * 86400.0
LARGEST_TOTAL = 20 * 2**30
FRESH_S = 3600.0
"""An environment used so recently may be about to be used again."""
TRIES = "WARNING: Retrying ("
SAID_LINES = 6
END_WITH_PARENT = (
    "import ctypes, os, sys; parent = int(sys.argv[1]); ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"
    "os.getppid() == parent or sys.exit(1); os.execv(sys.argv[2], sys.argv[2:])"
)
"""An installer whose agent was killed would go on for nobody."""


@value
class Environment:
    """What runs a script."""

    python: str
    folder: str = ""
    """The folder of the virtual environment; empty: the Python as it is has everything."""


class Builder:
    """Makes one environment; `stop` ends its work from another thread."""

    def __init__(self, root: Path, blobs: Blobs) -> None:
        self._root = root
        self._blobs = blobs
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._stopped = False

    def stop(self) -> None:
        """Stop the work: nobody waits for it any more."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._running.pid, signal.SIGKILL)

    def environment(self, command: str, packages: Packages, lent: Sequence[str]) -> Environment:
        """Find what runs a script with these requirements, and make it if there is none yet.

        Raises:
            ClusterFailed: it cannot be made; the message says why. NoSpace.
        """
        base = ask(command, lent)
        base.refuse_if_wrong(packages)
        own = any(wheel.own for wheel in packages.wheels)
        if not own and not base.lacks(packages):
            return Environment(command)
        folder = private_folder(self._root) / key_of(base, packages, lent)
        with self._alone(folder):
            if not (folder / "ready").exists():
                self._make(folder, base, packages, lent)
            with explained(folder):
                os.utime(folder / "ready")
        forget_unused(self._root)
        return Environment(str(folder / "bin" / "python"), str(folder))

    @contextlib.contextmanager
    def _alone(self, folder: Path) -> Iterator[None]:
        """Let others that want the same wait; also agents of other clusters."""
        with explained(folder), folder.with_name(f"{folder.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make(self, folder: Path, base: Interpreter, packages: Packages, lent: Sequence[str]) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # one that was not finished
        begun = time.monotonic()
        try:
            with explained(folder):
                self._run([base.command, "-m", "venv", "--without-pip", str(folder)], "a virtual environment")
                _inherit(folder, base, lent)
                self._install(folder, base, packages)
            made = ask(str(folder / "bin" / "python"))
            if left := made.lacks(packages):
                raise ClusterFailed(f"after the installation these are still missing: {', '.join(left)}")
            write_whole(folder / "ready", json.dumps({"bytes": _size(folder), "for": packages.lines}).encode())
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        log.info("made %s in %.1f s", folder, time.monotonic() - begun)

    def _install(self, folder: Path, base: Interpreter, packages: Packages) -> None:
        wheels = private_folder(folder / "wheels")
        kind = kind_of(base.facts)
        mine = [wheel for wheel in packages.wheels if wheel.kind in ("", kind)]
        for wheel in mine:
            (wheels / Path(wheel.name).name).symlink_to(self._blobs.path(wheel.sha256))
        options = ["--find-links", str(wheels), "-r", str(folder / "requirements.txt")]
        lines = [*packages.options, *packages.lines]
        if packages.complete:
            lines = [_pinned(wheel.name) for wheel in mine if not wheel.name.startswith("pip-")]
            options += ["--no-index", "--no-deps"]
        elif packages.constraints:
            write_whole(folder / "constraints.txt", "\n".join(packages.constraints).encode())
            options += ["-c", str(folder / "constraints.txt")]
        write_whole(folder / "requirements.txt", "\n".join([*lines, ""]).encode())
        python, uv = str(folder / "bin" / "python"), find_uv()
        shipped = next((str(wheels / wheel.name) for wheel in mine if wheel.name.startswith("pip-")), "")
        if uv:
            command = [uv, "pip", "install", "--quiet", "--python", python, *options]
        elif base.has_pip or base.bundled_pip or shipped:
            pip = ["-m", "pip"] if base.has_pip else [f"{shipped or base.bundled_pip}/pip"]
            quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-warn-script-location"]
            command = [python, *pip, *(["--isolated"] if packages.complete else []), "install", *quiet, *options]
        else:
            raise ClusterFailed(
                "neither uv nor pip is on this host",
                "install one of them, or submit with --packages ship from a machine that has pip",
            )
        self._run(command, f"installing {', '.join(packages.lines[:4]) or 'packages'}")
        shutil.rmtree(wheels, ignore_errors=True)

    def _run(self, command: Sequence[str], what: str) -> None:
        """Run a program to its end. Raises ClusterFailed: it failed, or was stopped."""
        words = [sys.executable, "-S", "-E", "-c", END_WITH_PARENT, str(os.getpid())]
        with self._lock:
            if self._stopped:
                raise ClusterFailed(f"{what}: stopped")
            self._running = subprocess.Popen(
                [*words, _program(command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                start_new_session=True,
            )
        try:
            said, _ = self._running.communicate(timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            self.stop()
            self._running.communicate()
            raise ClusterFailed(f"{what} took longer than {INSTALL_S / 60:.0f} minutes") from None
        if self._stopped:
            raise ClusterFailed(f"{what}: stopped")
        if self._running.returncode != 0:
            raise ClusterFailed(f"{what} failed: {last_words(said) or f'exit code {self._running.returncode}'}")


def last_words(said: str) -> str:
    """Return the last lines that an installer wrote, on one line; without passwords, and without pip's tries before."""
    lines = [line for line in _without_secrets(said).splitlines() if line.strip() and not line.startswith(TRIES)]
    return " / ".join(lines[-SAID_LINES:])


def key_of(base: Interpreter, packages: Packages, lent: Sequence[str]) -> str:
    """Name what an environment is made of. Wheels that were sent to spare a host an index make no difference."""
    own = sorted(wheel.sha256 for wheel in packages.wheels if wheel.own)
    kind = [base.executable, base.version, kind_of(base.facts), *base.sites, *lent]
    wanted = [sorted(packages.lines), sorted(packages.constraints), sorted(packages.options), own]
    return hashlib.sha256(json.dumps([kind, *wanted]).encode()).hexdigest()[:24]


def examine(command: str, packages: Packages, lent: Sequence[str], root: Path) -> Examination:
    """Examine what a job with these requirements would find here.

    Raises:
        ClusterFailed: the Python does not answer, or is not the one that the script wants.
    """
    base = ask(command, lent)
    base.refuse_if_wrong(packages)
    own = any(wheel.own for wheel in packages.wheels)
    made = (root / key_of(base, packages, lent) / "ready").exists()
    ready = made or not (own or base.lacks(packages))
    return Examination(
        facts_json=json.dumps(base.facts),
        ready=ready,
        installs=bool(base.has_pip or base.bundled_pip or find_uv()),
        index=not ready and index_answers(packages.options),
        have=tuple(f"{item.name}=={item.version}" for item in base.have),
    )


def _inherit(folder: Path, base: Interpreter, lent: Sequence[str]) -> None:
    """Let an environment's Python find what the cluster's Python has, after its own packages."""
    (site,) = folder.glob("lib/python*/site-packages")
    lines = [f"import site; site.addsitedir({path!r})" for path in base.sites]
    write_whole(site / "dtfctl_inherited.pth", "\n".join([*lines, *lent, ""]).encode())


def _pinned(wheel: str) -> str:
    name, version, *_ = wheel.split("-")
    return f"{name}=={version.replace('_', '-')}"


def _program(name: str) -> str:
    return name if os.sep in name else shutil.which(name) or name


def _without_secrets(text: str) -> str:
    """Hide the password that an index's address may hold."""
    return re.sub(r"://[^/\s@]+@", "://***@", text)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def forget_unused(root: Path) -> None:
    """Remove environments unused for two weeks, and the longest unused of too many; none that something runs from."""
    found = []
    for ready in root.glob("*/ready"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.append((ready.stat().st_mtime, json.loads(ready.read_bytes())["bytes"], ready.parent))
    total = sum(size for _, size, _ in found)
    for used, size, folder in sorted(found, key=lambda item: item[0]):
        unused_s = time.time() - used
        if (unused_s > UNUSED_S or (total > LARGEST_TOTAL and unused_s > FRESH_S)) and not runs_from(folder):
            (folder / "ready").unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
