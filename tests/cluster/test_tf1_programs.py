"""The TF1 programs and the replication examples: in one process, as jobs of a cluster, and started by hand."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_ports

ROOT = Path(__file__).parents[2]
TF1 = ROOT / "examples" / "tf1"
REPLICATION = ROOT / "examples" / "replication"

SHORT = {
    "mnist_cnn": ["--steps=60", "--target=0.7"],
    "lstm_sequences": ["--steps=80", "--target=0.6"],
    "word2vec_nce": ["--steps=500", "--target=12"],
    "wide_and_deep": ["--steps=60", "--target=0.85"],
}
"""Arguments for runs that show that a program learns; without them it reaches what its docstring promises."""

REPLICATED = ["all_reduce", "between_graph_async", "between_graph_sync", "in_graph_async", "in_graph_sync"]


def python(*arguments: object, environ: dict[str, str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout, cwd=ROOT)


def checked(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    """One thread a process for matrix products: several processes share the machine."""
    return {**os.environ, "DTFCTL_HOME": str(home), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def accuracies(output: str) -> list[float]:
    """What the programs say they reached, as fractions."""
    percents = [float(x) / 100 for x in re.findall(r"held-out digits: ([0-9.]+)%", output)]
    return percents + [float(x) for x in re.findall(r"accuracy ([0-9.]+) on \d+ held-out", output)]


@pytest.mark.parametrize("name", SHORT)
def test_only_the_import_line_is_not_tensorflows(name: str) -> None:
    tree = ast.parse((TF1 / f"{name}.py").read_text())
    imported = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert [line for line in imported if "dtfctl" in line] == ["import dtfctl.runtime as tf"]
    tree.body = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))][1:]
    assert "dtf" not in ast.unparse(tree).lower()


@pytest.mark.parametrize("name", SHORT)
def test_a_tf1_program_learns_in_one_process(name: str, environ: dict[str, str]) -> None:
    checked(python(TF1 / f"{name}.py", *SHORT[name], environ=environ))


def test_a_tf1_program_that_misses_its_target_fails(environ: dict[str, str]) -> None:
    done = python(TF1 / "wide_and_deep.py", "--steps=1", "--target=1.01", environ=environ)
    assert (done.returncode, len(accuracies(done.stdout))) == (1, 1), done.stderr


@pytest.mark.parametrize("name", REPLICATED)
def test_a_replication_example_trains_in_one_process(name: str, environ: dict[str, str]) -> None:
    (reached,) = accuracies(checked(python(REPLICATION / f"{name}.py", environ=environ)))
    assert reached >= 0.95


@pytest.fixture
def cluster(environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """A ps and two workers; the environment to reach them."""
    checked(python("-m", "dtfctl", "up", "cluster-examples/local.yaml", environ=environ))
    yield environ
    checked(python("-m", "dtfctl", "down", environ=environ))


def submit(*arguments: object, environ: dict[str, str]) -> str:
    return checked(python("-m", "dtfctl", "submit", *arguments, environ=environ))


def test_jobs_of_either_form(cluster: dict[str, str]) -> None:
    """A TF1 program whose flags and Server are the running tasks', and synchronous training with a backup worker."""
    output = submit(TF1 / "mnist_cnn.py", *SHORT["mnist_cnn"], environ=cluster)
    assert "worker/0 | accuracy" in output and "worker/1 | accuracy" in output
    assert accuracies(submit(REPLICATION / "between_graph_sync.py", environ=cluster))[0] >= 0.95


@pytest.mark.slow
def test_every_example_reaches_its_promise_on_a_cluster(cluster: dict[str, str]) -> None:
    for name in SHORT:
        submit(TF1 / f"{name}.py", environ=cluster)
    for name in REPLICATED:
        form = ["--replication", "in-graph"] if name.startswith("in_graph") else []
        assert accuracies(submit(*form, REPLICATION / f"{name}.py", environ=cluster))[0] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_a_tf1_program_keeps_its_promise_in_one_process(name: str, environ: dict[str, str]) -> None:
    checked(python(TF1 / f"{name}.py", environ=environ))


def test_a_tf1_program_started_by_hand_on_every_task(environ: dict[str, str]) -> None:
    """Without a launcher: a ps, which serves for ever, and two workers, which end when training does."""
    ps, first, second = (f"localhost:{port}" for port in free_ports(3))
    common = [f"--ps_hosts={ps}", f"--worker_hosts={first},{second}", *SHORT["wide_and_deep"]]
    program = [sys.executable, str(TF1 / "wide_and_deep.py"), *common]
    tasks = [("ps", 0), ("worker", 0), ("worker", 1)]
    started = [
        subprocess.Popen(
            [*program, f"--job_name={job}", f"--task_index={index}"],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for job, index in tasks
    ]
    try:
        for worker in started[1:]:
            output, _ = worker.communicate(timeout=100)
            assert worker.returncode == 0, output
            assert accuracies(output)
        assert started[0].poll() is None
    finally:
        for process in started:
            process.kill()
            process.communicate()
