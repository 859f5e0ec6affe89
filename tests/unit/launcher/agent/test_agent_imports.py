"""What an agent imports: every host of a cluster pays for it, at once, whenever a cluster comes up."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("grpc", "numpy", "yaml", "cryptography", "asyncssh", "rich", "typer", "asyncio", "dataclasses", "inspect")
HEAVY += ("argparse", "concurrent.futures", "shutil", "tempfile", "random", "hashlib", "dtfctl.runtime")
LATER = ("scipy", "numba")
TRAINS = """
import dtfctl.runtime as tf
w = tf.Variable([[1.0], [2.0]])
rows = tf.gather(w, [0, 1, 1])
train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(tf.matmul(rows, [[3.0]]))))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train)
"""


def imported(program: str) -> set[str]:
    """What of HEAVY and LATER a new Python has after it."""
    code = f"import sys\n{program}\nprint(*(name for name in {HEAVY + LATER!r} if name in sys.modules))"
    # Without the modules that an environment may import at every start.
    words = [sys.executable, "-I", "-c", code]
    nothing = subprocess.run([*words[:-1], code.replace(program, "")], capture_output=True, text=True, check=True)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(done.stdout.split()) - set(nothing.stdout.split())


def test_an_agent_imports_nothing_heavy() -> None:
    assert imported("import dtfctl.launcher.agent.program") == set()


def test_nor_does_what_starts_it_on_a_host() -> None:
    assert imported("import dtfctl.launcher.providers.host_side") == set()


@pytest.mark.slow
def test_a_program_that_trains_does_not_wait_for_packages_that_come_later() -> None:
    """After a first `up` scipy, as large as all else together, is still on its way when the first job begins."""
    assert "scipy" not in imported("import dtfctl.runtime.services.server\nimport dtfctl.runtime as tf; tf.constant")
    assert not imported(f"import dtfctl.later; dtfctl.later.arrived = lambda _: False\n{TRAINS}") & set(LATER)


def test_the_measure_sees_what_is_imported() -> None:
    assert {"grpc", "dataclasses"} <= imported("import grpc, dataclasses")
