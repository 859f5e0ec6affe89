"""The examples, run as a user runs them: on a cluster of real processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from tests.cluster.conftest import pids, task, wait_until

ROOT = Path(__file__).parents[2]


def dtfctl(*arguments: object, environ: dict[str, str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dtfctl", *map(str, arguments)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout, cwd=ROOT)


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {**os.environ, "DTFCTL_HOME": str(home)}


@pytest.mark.parametrize(
    ("example", "options", "said", "number", "tolerance"),
    [
        ("custom_op", [], r"ripple\(.*\) = (.*)", 2, 1e-3),
        pytest.param("quantum_layer", ["--steps", "150"], r"held-out points: (.*)%", 100, 5, marks=pytest.mark.slow),
    ],
)
def test_ops_of_a_package_run_on_a_cluster(
    tmp_path: Path,
    environ: dict[str, str],
    example: str,
    options: list[str],
    said: str,
    number: float,
    tolerance: float,
) -> None:
    """The package is installed beside the tasks, which find its ops through its entry point."""
    site = tmp_path / "site"
    package = ROOT / "examples" / example
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    build = tmp_path / "source"
    subprocess.run(["cp", "-r", package, build], check=True)
    subprocess.run([*install, "--target", site, build], check=True, capture_output=True, timeout=120)
    environ["PYTHONPATH"] = str(site)
    up = dtfctl("up", "cluster-examples/local.yaml", environ=environ)
    assert up.returncode == 0, up.stderr
    job = dtfctl("submit", "--replication", "in-graph", package / "job.py", *options, environ=environ)
    assert job.returncode == 0, job.stdout + job.stderr
    found = re.search(said, job.stdout)
    assert found and abs(float(found[1]) - number) < tolerance


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["ps/0", "worker/1"])
def test_digits_survive_the_death_of_a_task(environ: dict[str, str], victim: str) -> None:
    """kill -9 in the middle of training: the job resumes from its newest checkpoint and is as accurate as ever."""
    up = dtfctl("up", "cluster-examples/local.yaml", environ=environ)
    assert up.returncode == 0, up.stderr
    cluster = Cluster.open("demo")
    command = [sys.executable, "-m", "dtfctl", "submit", "examples/digits_mlp.py", "--steps", "4000"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as client:
        wait_until(lambda: [j for j in cluster.jobs() if j.progress and j.progress.step > 300], "300 steps", 90)
        before = pids(cluster)
        os.kill(int(before[victim] or 0), 9)
        wait_until(lambda: task(cluster, victim).restarts == 1 and task(cluster, victim).state == "running", "restart")
        out, err = client.communicate(timeout=150)
        assert client.returncode == 0, out + err
    said = re.search(r"held-out digits: ([0-9.]+)%", out)
    assert said is not None and float(said[1]) >= 95
    after = pids(cluster)
    assert {n for n in after if after[n] != before[n]} == {victim}
    kinds = [e.kind for e in cluster.events()]
    assert "task.ended" in kinds and "job.succeeded" in kinds


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("example", "said", "least", "most"),
    [
        ("digits_cnn", r"360 held-out digits: ([0-9.]+)%", 96, 100),
        ("bracket_lstm", r"right depths in strings of 28: ([0-9.]+)%", 95, 100),
        ("language_model", r"bits a character of held-out text: ([0-9.]+)", 1, 2.25),
        ("word_vectors", r"neighbours of a word's own kind: ([0-9.]+)%", 50, 90),
        ("pendulum_dqn", r"upright in the last 100 of them: ([0-9.]+)%", 90, 100),
        ("digits_gan", r"read by who learned from drawn ones: ([0-9.]+)%", 85, 100),
    ],
)
def test_an_example_of_one_file_learns_on_a_cluster(
    environ: dict[str, str], example: str, said: str, least: float, most: float
) -> None:
    """It reaches what its page says, within bounds that three runs with other chances were well inside of."""
    up = dtfctl("up", "cluster-examples/local.yaml", environ=environ)
    assert up.returncode == 0, up.stderr
    job = dtfctl("submit", f"examples/{example}.py", environ=environ, timeout=600)
    assert job.returncode == 0, job.stdout + job.stderr
    found = re.search(said, job.stdout)
    assert found is not None and least <= float(found[1]) <= most


@pytest.mark.slow
def test_recommendations_beat_what_sells_best_with_tables_over_two_ps(environ: dict[str, str], tmp_path: Path) -> None:
    spec = tmp_path / "c.yaml"
    spec.write_text("cluster: demo\ntasks: {ps: 2, worker: 1}\n")
    up = dtfctl("up", spec, environ=environ)
    assert up.returncode == 0, up.stderr
    job = dtfctl("submit", "examples/recommend.py", "--users", 2_000_000, "--steps", 1500, environ=environ)
    assert job.returncode == 0, job.stdout + job.stderr
    said = re.search(r"recall@20: ([0-9.]+)% .* best: ([0-9.]+)%", job.stdout)
    assert said is not None and float(said[1]) > 2 * float(said[2])
    (folder,) = Path(environ["DTFCTL_HOME"]).glob("clusters/demo/jobs/*/checkpoint")
    assert list(folder.glob("ckpt-*.data-00002-of-00003")), "each ps has saved its parts, and the worker what they are"
    (kept,) = folder.glob("ckpt-*.index")
    converted = dtfctl("checkpoint", "convert", kept.with_suffix(""), tmp_path / "shop.safetensors", environ=environ)
    assert converted.returncode == 0, converted.stderr
    shown = dtfctl("checkpoint", "show", tmp_path / "shop.safetensors", environ=environ)
    assert shown.stdout.count("1000000x16") == 4, "two parts of the users' table, and what Adagrad keeps of each"


@pytest.mark.slow
def test_those_without_a_ps_lose_no_step_when_a_worker_dies(environ: dict[str, str], tmp_path: Path) -> None:
    """kill -9 in the middle of training: the others give the one that comes back what they have."""
    spec = tmp_path / "c.yaml"
    spec.write_text("cluster: demo\ntasks: {worker: 2}\n")
    up = dtfctl("up", spec, environ=environ)
    assert up.returncode == 0, up.stderr
    cluster = Cluster.open("demo")
    command = [sys.executable, "-m", "dtfctl", "submit", "examples/replication/all_reduce.py", "--steps", "1500"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as client:
        wait_until(lambda: task(cluster, "worker/0").steps > 100, "100 steps", 90)
        os.kill(int(pids(cluster)["worker/1"] or 0), 9)
        out, err = client.communicate(timeout=150)
        assert client.returncode == 0, out + err
    assert all(float(reached) >= 95 for reached in re.findall(r"held-out digits: ([0-9.]+)%", out))
    failed = [int(step) for step in re.findall(r"worker/0 \| step (\d+): ", out)]
    going_on = [int(step) for step in re.findall(r"worker/0 \| goes on from step (\d+) of", out)]
    assert going_on[0] == 0 and len(failed) == len(going_on) - 1 > 0
    assert all(after - before in (0, 1) for before, after in zip(failed, going_on[1:]))


@pytest.mark.nightly
def test_an_elastic_job_goes_on_with_whoever_is_there(environ: dict[str, str], tmp_path: Path) -> None:
    """A worker more, kill -9 of one, and one fewer, in the middle of training: nobody begins anew."""
    spec = tmp_path / "c.yaml"
    spec.write_text("cluster: demo\ntasks: {worker: 2}\n")
    up = dtfctl("up", spec, environ=environ)
    assert up.returncode == 0, up.stderr
    cluster = Cluster.open("demo")
    options = ["--replication", "elastic", "examples/replication/elastic.py", "--steps", "3000", "--pause", "0.01"]
    command = [sys.executable, "-m", "dtfctl", "submit", *options]
    seen: list[str] = []
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, cwd=ROOT) as client:
        assert client.stdout is not None

        def until(text: str) -> None:
            for line in client.stdout or ():
                seen.append(line)
                if text in line:
                    return
            raise AssertionError(f"it ended before {text!r}: {seen}")

        until("worker/0 | 2 workers go on from step 0")
        cluster.scale({"worker": 3})
        until("worker/0 | 3 workers go on from step")
        os.kill(int(pids(cluster)["worker/2"] or 0), 9)
        until("worker/0 | 3 workers go on from step")
        cluster.scale({"worker": 2})
        until("worker/0 | 2 workers go on from step")
        seen += client.communicate(timeout=150)[0].splitlines(keepends=True)
        assert client.returncode == 0, seen
    steps = [int(step) for step in re.findall(r"worker/0 \| \d workers go on from step (\d+)", "".join(seen))]
    assert steps == sorted(steps) and len(steps) >= 4 and steps[1] > 0


@pytest.mark.nightly
def test_a_strategys_workers_go_on_when_one_dies(environ: dict[str, str], tmp_path: Path) -> None:
    """kill -9 in the middle of training: the group forms again, and the one that is back has what the other has."""
    spec = tmp_path / "c.yaml"
    spec.write_text("cluster: demo\ntasks: {worker: 2}\n")
    up = dtfctl("up", spec, environ=environ)
    assert up.returncode == 0, up.stderr
    cluster = Cluster.open("demo")
    script = "examples/replication/multi_worker_mirrored.py"
    command = [sys.executable, "-m", "dtfctl", "submit", script, "--steps", "2000"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as client:
        wait_until(lambda: task(cluster, "worker/0").steps > 200, "200 steps", 90)
        os.kill(int(pids(cluster)["worker/1"] or 0), 9)
        out, err = client.communicate(timeout=150)
        assert client.returncode == 0, out + err
    reached = re.findall(r"held-out digits: ([0-9.]+)%", out)
    assert len(reached) == 2 and all(float(r) >= 95 for r in reached)
    assert task(cluster, "worker/1").restarts == 1


@pytest.mark.nightly
@pytest.mark.parametrize("victim", ["worker/1", "worker/0"])
def test_a_pipeline_goes_on_from_its_checkpoint_when_a_stage_dies(
    environ: dict[str, str], tmp_path: Path, victim: str
) -> None:
    """kill -9 of a stage's worker: the step ends with an error, and training goes on from the newest checkpoint."""
    spec = tmp_path / "c.yaml"
    spec.write_text("cluster: demo\ntasks: {worker: 3}\n")
    up = dtfctl("up", spec, environ=environ)
    assert up.returncode == 0, up.stderr
    cluster = Cluster.open("demo")
    options = ["--replication", "in-graph", "examples/replication/pipeline.py", "--steps", "1500"]
    command = [sys.executable, "-m", "dtfctl", "submit", *options]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as client:
        wait_until(lambda: [j for j in cluster.jobs() if j.progress and j.progress.step > 200], "200 steps", 90)
        os.kill(int(pids(cluster)[victim] or 0), 9)
        out, err = client.communicate(timeout=150)
        assert client.returncode == 0, out + err
    said = re.search(r"held-out digits: ([0-9.]+)%", out)
    assert said is not None and float(said[1]) >= 95
    assert task(cluster, victim).restarts == 1
    assert re.search(r"goes on at step [1-9]|goes on from step [1-9]", out + err), out + err
