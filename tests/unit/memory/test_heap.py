"""What a step has freed serves the next one: the system gives it no new pages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator of another C library")

# Each iteration keeps a matrix of 64 KB until the gradient has used it: 16 MB, freed when the step ends.
_PROGRAM = """
import resource
import numpy as np
import dtfctl.runtime as tf

x = tf.placeholder(tf.float32, [128, 128])
w = tf.get_variable("w", initializer=np.eye(128, dtype=np.float32))
_, y = tf.while_loop(lambda n, _: n < 256, lambda n, y: (n + 1, tf.tanh(tf.matmul(y, w))), (0, x))
gradient = tf.gradients(y, w)[0]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    value = np.full([128, 128], 0.5, np.float32)

    def steps(count):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(count):
            session.run(gradient, {x: value})
        return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / count

    steps(20)
    print(*(steps(5) for _ in range(4)))
"""


def _pages_of_steps(**environment: str) -> list[float]:
    """How many new pages a step found, in several goes."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k != "GLIBC_TUNABLES"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=clean | environment, capture_output=True, text=True, check=True
    )
    return [float(text) for text in done.stdout.split()]


def test_no_new_pages() -> None:
    """4,096 pages are freed at the end of each step."""
    assert min(_pages_of_steps()) < 400


@pytest.mark.parametrize(
    "environment",
    [{"MALLOC_TRIM_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}],
    ids=lambda e: next(iter(e)),
)
def test_what_the_environment_says_holds(environment: dict[str, str]) -> None:
    assert max(_pages_of_steps(**environment)) > 400
