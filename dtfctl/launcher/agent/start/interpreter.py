"""What a Python on this host is and has, asked of itself; and which of a job's requirements that leaves open."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.specifiers import SpecifierSet

from dtfctl import guard
from dtfctl.launcher.errors import ClusterFailed
from dtfctl.launcher.messages.orders import Packages
from dtfctl.launcher.transfer.packages import Installed, unmet
from dtfctl.values import value

ASK_S = 60.0
INDEX_S = 3.0
DEFAULT_INDEX = "https://pypi.org/simple"
# What lies in the working folder is not looked at; the option that says so came with Python 3.11.
QUESTION = """
import sys
sys.path[:] = [path for path in sys.path if path]
import glob, importlib.metadata, importlib.util, json, os, platform
try:
    libc = (os.confstr("CS_GNU_LIBC_VERSION") or " ").split(" ")[:2]
except (ValueError, OSError):
    libc = ["", ""]
found = importlib.util.find_spec("ensurepip")
bundled = os.path.join(os.path.dirname(found.origin), "_bundled") if found and found.origin else ""
wheels = glob.glob(os.path.join(bundled, "pip-*.whl")) + glob.glob("/usr/share/python-wheels/pip-*.whl")
print(json.dumps({
    "python": sys.version.split()[0], "implementation": platform.python_implementation(),
    "machine": os.uname().machine, "libc": libc, "executable": os.path.realpath(sys.executable),
    "sites": [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")],
    "pip": wheels[0] if wheels else "",
    "have": [[d.metadata["Name"], d.version, d.requires or []] for d in importlib.metadata.distributions()
             if d.metadata["Name"]],
}))
"""


@value
class Interpreter:
    """A Python as it answered."""

    command: str
    facts: Mapping[str, object]
    """The facts as `host_side.py` has them for a host: python, implementation, machine, libc."""
    executable: str
    sites: tuple[str, ...]
    bundled_pip: str
    """A wheel that can be run; empty: there is none."""
    have: tuple[Installed, ...]

    @property
    def has_pip(self) -> bool:
        return any(item.name == "pip" for item in self.have)

    @property
    def version(self) -> str:
        return str(self.facts["python"])

    def lacks(self, packages: Packages) -> list[str]:
        """List what of the requirements the Python does not have."""
        return unmet(packages.lines, self.have, self._markers())

    def refuse_if_wrong(self, packages: Packages) -> None:
        """Raise ClusterFailed where the script wants another Python."""
        if packages.requires_python and not SpecifierSet(packages.requires_python).contains(
            self.version, prereleases=True
        ):
            raise ClusterFailed(
                f"the script wants Python {packages.requires_python}; {self.command} is {self.version}",
                "name another one with --python",
            )

    def _markers(self) -> dict[str, str]:
        return {
            "implementation_version": self.version,
            "python_full_version": self.version,
            "python_version": ".".join(self.version.split(".")[:2]),
        }


def ask(command: str, lent: Sequence[str] = ()) -> Interpreter:
    """Ask a Python; `lent` are the folders in which it finds dtfctl, where it has none of its own.

    Raises:
        ClusterFailed: it does not answer.
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(lent)}
    try:
        done = subprocess.run(
            [command, "-c", QUESTION],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=env,
            timeout=ASK_S,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterFailed(
                f"{command} cannot be asked what it has: {(done.stderr.strip() or '-').splitlines()[-1]}"
            )
        told = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ClusterFailed(f"{command} cannot be asked what it has: {error}", "is it a Python?") from None
    have: dict[str, Installed] = {}
    for name, version, requires in told["have"]:
        have.setdefault(name.lower(), Installed(name, version, tuple(requires)))
    facts = {name: told[name] for name in ("python", "implementation", "machine", "libc")}
    return Interpreter(command, facts, told["executable"], tuple(told["sites"]), told["pip"], tuple(have.values()))


def find_uv() -> str:
    """Find where `uv` is on this host; empty: nowhere."""
    places = [os.environ.get("PATH", os.defpath), *(str(Path.home() / name) for name in (".local/bin", ".cargo/bin"))]
    return shutil.which("uv", path=os.pathsep.join(places)) or ""


def index_answers(options: Sequence[str]) -> bool:
    """Tell whether a package index can be reached from here; a name server that is silent must not cost minutes."""
    if "--no-index" in options:
        return False
    env = os.environ
    if any(env.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")):
        return True
    told = [option.partition(" ")[2] for option in options if option.startswith("--index-url")]
    configured = [env.get("UV_DEFAULT_INDEX"), env.get("UV_INDEX_URL"), env.get("PIP_INDEX_URL"), _configured()]
    index = urllib.parse.urlsplit(next(filter(None, [*told, *configured]), DEFAULT_INDEX))
    if index.scheme == "file":
        return True
    answered: list[bool] = []

    def knock() -> None:
        try:
            port = index.port or (443 if index.scheme == "https" else 80)
            socket.create_connection((index.hostname or "", port), INDEX_S).close()
            answered.append(True)
        except (OSError, ValueError):
            return

    thread = guard.once(knock, name="index")
    thread.start()
    thread.join(INDEX_S)
    return bool(answered)


def _configured() -> str:
    """Read the index that pip's own files name, the user's before the machine's."""
    home = Path.home()
    for path in (home / ".config/pip/pip.conf", home / ".pip/pip.conf", Path("/etc/pip.conf")):
        try:
            found = re.search(r"(?m)^\s*index-url\s*=\s*(\S+)", path.read_text())
        except (OSError, ValueError):
            continue
        if found:
            return found[1]
    return ""
