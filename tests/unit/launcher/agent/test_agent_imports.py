"""What an agent imports: every host of a cluster pays for it, at once, whenever a cluster comes up."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("grpc", "numpy", "yaml", "cryptography", "asyncssh", "rich", "typer", "asyncio", "dataclasses", "inspect")
HEAVY += ("argparse", "concurrent.futures", "shutil", "tempfile", "random", "hashlib", "dtfctl.runtime")


def imported(program: str) -> set[str]:
    """What of HEAVY a new Python has after it."""
    code = f"import sys\n{program}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    # Without the modules that an environment may import at every start.
    words = [sys.executable, "-I", "-c", code]
    nothing = subprocess.run([*words[:-1], code.replace(program, "")], capture_output=True, text=True, check=True)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(done.stdout.split()) - set(nothing.stdout.split())


def test_an_agent_imports_nothing_heavy() -> None:
    assert imported("import dtfctl.launcher.agent.program") == set()


def test_nor_does_what_starts_it_on_a_host() -> None:
    assert imported("import dtfctl.launcher.providers.host_side") == set()


def test_the_measure_sees_what_is_imported() -> None:
    assert {"grpc", "dataclasses"} <= imported("import grpc, dataclasses")
