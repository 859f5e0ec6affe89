"""`dtfctl dashboard` in a real browser, and for who is not let in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from dtfctl.dashboard.server import Dashboard
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import GrantStatus, JobRequest
from dtfctl.launcher.operator.serving import ServeRequest
from dtfctl.launcher.paths import ClusterPaths
from tests.cluster.conftest import spec_of, wait_until
from tests.doubles.launcher import status, task
from tests.support.browser import python_with
from tests.unit.dashboard.test_server import FakeCluster

# Their own limits end first, which say what was waited for.
pytestmark = pytest.mark.timeout(1200)

BROWSER = Path(__file__).with_name("browser_page.py")
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits_mlp.py"
JOB = """
import time
import numpy as np
import dtfctl.runtime as tf
from dtfctl.runtime.train import progress

with tf.device("/job:ps/task:0"), tf.name_scope("model"):
    weights = tf.Variable(np.ones((8, 8), "f4"), name="weights")
    sides = tf.Variable(np.repeat([[9, 0], [0, 9]], 4, 0), dtype=tf.float32, name="sides")
with tf.device("/job:worker/task:0"), tf.name_scope("model/"):
    product = tf.matmul(weights, weights, name="product")
    images = tf.placeholder(tf.float32, [None, 8, 8], name="images")
    tf.nn.softmax(tf.matmul(tf.reduce_sum(images, 1), sides, name="scores"))
step = tf.assign(weights, tf.clip_by_value(product, -1.0, 1.0)).op
print("<img src=x onerror=window.owned=1>", flush=True)
count = 0
with tf.Session(tf.distribute.cluster_resolver.TFConfigClusterResolver().master()) as session:
    session.run(tf.global_variables_initializer())
    while True:
        session.run(step)
        # It leaves the machine to who looks at it.
        time.sleep(0.02)
        count += 1
        if count % 20 == 0:
            progress.report(count, 10_000_000, loss=1.0 / count)
"""

SHORT = """
import os
import time
import dtfctl.runtime as tf
from dtfctl.runtime.train import progress

step = tf.train.get_or_create_global_step()
done = tf.assign_add(step, 1)
target = tf.distribute.cluster_resolver.TFConfigClusterResolver().master()
with tf.train.MonitoredTrainingSession(target, checkpoint_dir=os.environ["DTF_CHECKPOINT_DIR"]) as session:
    for count in range(1, 11):
        session.run(done)
        progress.report(count, 10, loss=1.0 / count)
        # What is reported more often than once a second is left out.
        time.sleep(1.1 if count == 9 else 0)
"""
TRIAL = """
import argparse, json, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--act")
given = parser.parse_args()
with open(os.environ["DTF_PROGRESS_FILE"], "a") as out:
    out.write(json.dumps({"step": 1, "metrics": {"score": given.lr + len(given.act)}, "time": time.time()}) + "\\n")
"""
SPACE = """
parameters: {lr: {from: 0.1, to: 1.0}, act: [relu, "<img src=x onerror=window.owned=1>"]}
metric: {name: score, goal: max}
sampler: random
trials: 4
"""


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(folder / "home"))
        # However slow the machine is: a browser is slower.
        found = Cluster.up(spec_of("seen", ps=1, worker=2), timeout_s=900.0).cluster
        assert found is not None
        try:
            yield found
        finally:
            found.down(grace_s=1.0)


def opened_dashboard() -> str:
    """Its address, which stays as long as the cluster."""
    command = [sys.executable, "-m", "dtfctl", "dashboard", "--no-browser"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout.strip()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as found:
        yield found


@pytest.fixture
def dashboard(cluster: Cluster) -> str:
    return opened_dashboard()


@dataclass
class Watched:
    """A cluster with a job that trains, and the address of its dashboard."""

    cluster: Cluster
    job: str
    address: str

    def look(self, name: str) -> dict[str, Any]:
        return look(self.address, self.job, "--only", name)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    python_with("playwright")
    folder = tmp_path_factory.mktemp("watched")
    script = folder / "job.py"
    script.write_text(JOB)
    with running_cluster(folder) as cluster:
        request = JobRequest(str(script), ("<script>window.owned=1</script>",), replication="in-graph")
        job = cluster.submit(request)
        wait_until(lambda: cluster.job(job).progress is not None, "the job trains", 900.0)
        yield Watched(cluster, job, opened_dashboard())


def look(url: str, job: str, *words: str) -> dict[str, Any]:
    """Give what a browser found; DTF_TEST_SHOTS names a folder for its pictures."""
    shots = os.environ.get("DTF_TEST_SHOTS")
    command = [python_with("playwright"), str(BROWSER), url, job, *words, *(["--shots", shots] if shots else [])]
    looked = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert looked.returncode == 0, looked.stderr
    found: dict[str, Any] = json.loads(looked.stdout)
    assert found.pop("problems") == []
    return found


@pytest.mark.slow
def test_a_browser_without_the_token_is_refused(watched: Watched) -> None:
    found = watched.look("strangers")
    assert found["refused"] == 1 and "guess" not in found["address"]


@pytest.mark.slow
def test_a_page_of_another_origin_neither_sees_nor_does_anything(watched: Watched) -> None:
    found = watched.look("origins")
    assert set(found["tried"].values()) == {"refused"}, found["tried"]
    assert found["frames"] == ["chrome-error://chromewebdata/"]
    assert not watched.cluster.job(watched.job).is_final


@pytest.mark.slow
def test_all_of_each_page_is_reached_by_keyboard(watched: Watched) -> None:
    assert watched.look("keys") == {"missed": {}}


@pytest.mark.slow
def test_each_page_in_a_browser(watched: Watched) -> None:
    found = watched.look("pages")
    assert [title.partition(" ")[0] for title in found["titles"]] == ["seen:"] * 8 and len(set(found["titles"])) == 8
    assert found["owned"] == ["undefined", 0]
    assert found["boxes"][1] < found["boxes"][0]


@pytest.mark.slow
def test_what_is_drawn_by_mouse_and_with_keys_is_told_by_the_job(watched: Watched) -> None:
    """On which side ink is, as its model says."""
    assert watched.look("draw")["said"] == ["0", "1"]


@pytest.mark.slow
def test_each_page_fits_a_phone_and_takes_touches(watched: Watched) -> None:
    found = watched.look("phone")
    assert found["wide"] == []
    assert max(int(part) for part in found["dark"].removeprefix("rgb(").rstrip(")").split(",")) < 80
    assert found["touched"] == "1"


@pytest.mark.slow
def test_what_another_page_does_is_seen_live(watched: Watched) -> None:
    assert watched.look("live")["workers"] == "function"


@pytest.mark.slow
def test_a_browser_without_shared_workers_is_live_too(watched: Watched) -> None:
    assert watched.look("alone")["workers"] == "undefined"


@pytest.mark.slow
def test_a_page_goes_on_by_itself_when_what_serves_it_was_killed(cluster: Cluster, dashboard: str) -> None:
    python_with("playwright")
    process = ClusterPaths.of(cluster.name).dashboard_process
    assert look(dashboard, str(process), "--only", "killed") == {"same": True, "another": True}


@pytest.mark.slow
def test_a_host_is_drained_and_put_back_when_the_question_is_answered(cluster: Cluster, dashboard: str) -> None:
    python_with("playwright")
    [host] = cluster.status().hosts
    assert look(dashboard, host.name, "--only", "hosts") == {"shown": ["up", "drained", "up"]}
    kinds = [event.kind for event in cluster.events() if event.subject == f"host:{host.name}"]
    assert [kind for kind in kinds if "drain" in kind] == ["host.drained", "host.undrained"]


@pytest.mark.slow
def test_of_500_tasks_only_what_has_changed_is_drawn_again() -> None:
    large = [
        task(f"{role}/{number}", host=f"host-{number % 50}", cpu_percent=1.0, uptime_s=None)
        for role, count in (("ps", 20), ("worker", 480))
        for number in range(count)
    ]
    lent = GrantStatus("granted", "Slurm job 17", ends=time.time() + 7300.0)
    told = replace(status(*large), grant=lent)
    told = replace(told, hosts=tuple(replace(told.hosts[0], name=f"host-{n}", tasks=10) for n in range(50)))
    cluster = FakeCluster(told)
    page = Dashboard(lambda: cast(Cluster, cluster))
    page.start()
    over = threading.Event()

    def change() -> None:
        turn = 0
        while not over.wait(0.1):
            turn += 1
            some = [replace(t, cpu_percent=float(turn % 90)) if t.index < 5 else t for t in cluster.state.tasks]
            cluster.become(replace(cluster.state, tasks=tuple(some)))

    changing = threading.Thread(target=change)
    changing.start()
    try:
        found = look(page.url, "", "--only", "many")
    finally:
        over.set()
        changing.join()
        page.close()
    assert set(found["drawn"]) <= {f"{role}/{n}" for role in ("ps", "worker") for n in range(5)} and found["drawn"]


@pytest.mark.slow
def test_a_job_that_ended_before_anybody_looked_has_its_plots_and_its_graph(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(SHORT)
    job = cluster.submit(JobRequest(str(tmp_path / "short.py"), replication="in-graph"))
    wait_until(lambda: cluster.job(job).state == "succeeded", "it has ended", 900.0)
    assert look(opened_dashboard(), job, "--only", "history")["said"] == "loss: now 0.1"


@pytest.mark.slow
def test_more_tabs_than_a_browser_has_connections_are_all_live(watched: Watched) -> None:
    assert watched.look("tabs") == {"showing": 3, "waiting": 5}


@pytest.mark.slow
def test_a_job_is_cancelled_by_keyboard_and_not_when_the_question_is_left(watched: Watched) -> None:
    # A task of it may just have been started again.
    assert watched.look("deeds")["after_escape"] in ("running", "recovering")
    assert watched.cluster.job(watched.job).state == "cancelled"


@pytest.mark.slow
def test_a_digit_that_is_drawn_is_known_by_what_a_job_has_learned(cluster: Cluster, dashboard: str) -> None:
    pytest.importorskip("sklearn")
    python_with("playwright")
    job = cluster.submit(JobRequest(str(DIGITS), ("--steps", "2000")))
    wait_until(lambda: cluster.job(job).state == "succeeded", "the model has learned", 900.0)
    model = ServeRequest(cluster.job(job).checkpoint_dir, "mlp", inputs=("images",), outputs=("logits/BiasAdd",))
    found = look(dashboard, cluster.serve(model).job, "--only", "digits")
    assert found["drawn"] == found["said"]


@pytest.mark.slow
def test_a_study_is_seen_while_it_runs(cluster: Cluster, dashboard: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    python_with("playwright")
    (tmp_path / "train.py").write_text(TRIAL)
    (tmp_path / "space.yaml").write_text(SPACE)
    words = ["tune", "-o", "json", "--folder", tmp_path / "study", tmp_path / "space.yaml", tmp_path / "train.py"]
    with subprocess.Popen([sys.executable, "-m", "dtfctl", *map(str, words)], stdout=subprocess.PIPE) as study:
        found = look(dashboard, "", "--only", "study")
        told = json.loads(study.communicate()[0])
    assert study.returncode == 0 and "4 of 4 trials" in found["text"]
    assert f"Best: trial {told['best']['trial']}: score" in found["text"]
    assert found["rows"] == 4 and found["drawn"] == [4, 4]
    # The dot and the line of the trial whose link has the focus.
    assert found["pointed"] == [True, True]
    assert found["owned"] == ["undefined", 0] and not found["wide"]
