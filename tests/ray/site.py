"""A real Ray cluster of several nodes on this machine (`nodes.py`), and what it takes to have one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

RAY = "ray[default]>=2.40"
INSTALL_S = 600.0
NODES = Path(__file__).with_name("nodes.py")
END_S = 30.0
TRIES = 3


def python_with_ray() -> tuple[str, str]:
    """Find the Python that has Ray, and what is missing where there is none.

    DTF_TEST_RAY names it. Nightly runs make an environment of their own, where packages can be fetched.
    """
    named = os.environ.get("DTF_TEST_RAY", "")
    if named:
        return named, ""
    if importlib.util.find_spec("ray") is not None:
        return sys.executable, ""
    if os.environ.get("DTF_NIGHTLY") != "1":
        return "", f"set DTF_TEST_RAY to the python of an environment with {RAY}"
    folder = Path(__file__).parents[2] / ".bench" / "ray"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", RAY],
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
        if done.returncode:
            return "", f"{RAY} cannot be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1][:200]}"
        (folder / "ready").touch()
    return str(python), ""


class Site:
    """A Ray that runs, with the nodes 0, 1 and so on; node 0 is its head."""

    def __init__(self, python: str, home: Path, nodes: int, cpus: int = 2, kind: str = "-") -> None:
        """`kind`: `dashboard`, or `autoscaler` (see `nodes.py`)."""
        self.python = python
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "DTF"))}
        environment |= {"HOME": str(home), "RAY_TMPDIR": str(home.parent)}
        words: list[str] = []
        for _ in range(TRIES):  # Ray gives its own processes half a minute, which a busy machine may not have
            self._process = subprocess.Popen(
                [python, str(NODES), str(nodes), str(cpus), kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(home.parent / "ray.log").open("ab"),
                text=True,
                env=environment,
            )
            words = self._line().split()
            if len(words) == 2:
                break
            self._process.wait(END_S)
        else:
            raise RuntimeError(f"Ray does not come up: {(home.parent / 'ray.log').read_text()[-2000:]}")
        self.address, self.dashboard = words

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _do(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._line()

    def node_ids(self) -> list[str]:
        return self._do("ids").split()

    def add_node(self) -> str:
        """Add a node; its id."""
        return self._do("add")

    def remove_node(self, index: int) -> None:
        """Take a node away at once, as with its power."""
        self._do(f"remove {index}")

    def ask(self, program: str) -> str:
        """Run a program that uses this Ray; what it writes."""
        begin = (
            "import ray, ray.util\n"
            f"ray.init(address={self.address!r}, namespace='dtfctl', log_to_driver=False, logging_level='ERROR')\n"
        )
        return subprocess.run(
            [self.python, "-c", begin + program], capture_output=True, text=True, check=True, timeout=120
        ).stdout.strip()

    def groups(self) -> list[str]:
        """List the placement groups that are there."""
        return self.ask(
            "print(*[group['name'] for group in ray.util.placement_group_table().values() "
            "if group['state'] != 'REMOVED'])"
        ).split()

    def alive(self) -> int:
        """Count its nodes, the head among them."""
        return int(self.ask("print(sum(node['Alive'] for node in ray.nodes()))"))

    def down(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
