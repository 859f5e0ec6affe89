"""Jobs of other frameworks, as they are installed: TensorFlow's own ps training, a torch group, JAX processes.

Each runs the example of examples/frameworks, has a process killed in the middle, and must end with the result of an
undisturbed run. DTF_TEST_TENSORFLOW, DTF_TEST_TORCH and DTF_TEST_JAX name the interpreters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import Health
from tests.cluster.conftest import STUB_COMMAND, spec_of
from tests.faults.conftest import Measured, measured
from tests.interop.framework_jobs import python_of, python_with, run

__all__ = ["measured"]
pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A ps and two workers. Their servers are stubs: these frameworks bring their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("frameworks") / "home"))
        made = Cluster.up(spec_of("frameworks"), task_command=STUB_COMMAND).cluster
        assert made is not None
        try:
            yield made
        finally:
            made.down(grace_s=1.0)


@pytest.mark.slow
@pytest.mark.fault(37)
def test_a_killed_rank_restarts_the_whole_torch_group_from_its_checkpoint(cluster: Cluster, measured: Measured) -> None:
    done = run(
        cluster,
        "torch",
        python_of("TORCH"),
        "torch_ddp.py",
        *("--steps", "120", "--pause", "0.02"),
        victim="worker/1",
        at="^step 40",
        again="goes on from step",
    )
    assert done.again_s > 0
    measured("training again, imports included s", done.again_s)
    assert done.status.restarts == 1, "restarted once, whatever number of ranks saw it"
    assert done.status.starts == 2
    first, second = done.addresses
    assert first != second, "another start meets at another port"
    assert {"rank 0 of 2, start 0", "rank 1 of 2, start 0", "rank 0 of 2, start 1", "rank 1 of 2, start 1"} <= {
        *done.lines
    }
    resumed = [int(step) for step in re.findall(r"goes on from step (\d+)", done.text)]
    assert len(resumed) == 2
    assert min(resumed) >= 40
    assert "weights [2.0, -3.0, 0.5]" in done.text
    assert done.events.count("job.starts-again") == 1


HANGS = """
import json, os, signal, sys, time
import torch, torch._dynamo, torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

how, tells = sys.argv[1], sys.argv[2] == "tells"
dist.init_process_group("gloo")
rank, start = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
saved = os.environ["DTF_CHECKPOINT_DIR"] + "/digits.pt"
digits = load_digits()
images, labels = torch.tensor(digits.data[rank::2], dtype=torch.float32) / 16, torch.tensor(digits.target[rank::2])
torch.manual_seed(0)
model = torch.nn.Linear(64, 10)
begin = 0
if os.path.exists(saved):
    begin, weights = torch.load(saved)
    model.load_state_dict(weights)
print("begins at", begin, flush=True)
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(begin, 60):
    if rank == 1 and start == "0" and step == 30:
        print("hangs", flush=True)
        if how == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1e6)
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if tells:
        with open(os.environ["DTF_PROGRESS_FILE"], "a") as file:
            file.write(json.dumps({"step": step + 1, "total": 60}) + chr(10))
    if rank == 0 and (step + 1) % 10 == 0:
        torch.save((step + 1, model.module.state_dict()), saved + ".new")
        os.rename(saved + ".new", saved)
    dist.barrier()
print("right", (model(images).argmax(1) == labels).float().mean().item(), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers, which soon are found to hang."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("impatient") / "home"))
        made = Cluster.up(
            spec_of("impatient", ps=0, health=Health(progress=6.0, idle=14.0)), task_command=STUB_COMMAND
        ).cluster
        assert made is not None
        try:
            yield made
        finally:
            made.down(grace_s=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reports", "why"),
    [
        ("stops", "silent", "worker/1: stopped by a signal for"),
        ("sleeps", "tells", "hangs: no progress since step 30 for"),
        ("sleeps", "silent", "hangs: none of its processes has done anything for"),
    ],
)
def test_a_rank_of_torch_that_hangs_is_found_and_all_go_on(
    impatient: Cluster, tmp_path: Path, how: str, reports: str, why: str
) -> None:
    """The others wait for it in a collective operation, and would for half an hour."""
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    done = run(impatient, "torch", python_with("TORCH", "sklearn"), str(script), how, reports)
    assert (done.status.restarts, done.status.starts) == (1, 2)
    assert done.lines.count("hangs") == 1
    assert done.lines.count("begins at 0") == 2
    assert done.lines.count("begins at 30") == 2, "from the newest checkpoint"
    right = [float(line.split()[1]) for line in done.lines if line.startswith("right ")]
    assert len(right) == 2 and min(right) > 0.9
    events = [event for event in impatient.events() if done.job_id in event.subject]
    assert any(event.kind == "job.starts-again" and why in event.reason for event in events), events
    named = [event.subject for event in events if event.kind == "task.suspect"]
    assert bool(named) == (how == "sleeps" and reports == "silent"), "which is named before"


JAX_HANGS = """
import os, time
import jax, jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
me = jax.process_index()
for step in range(40):
    if me == 1 and os.environ["DTF_STARTS"] == "1" and step == 20:
        print("hangs", flush=True)
        time.sleep(1e6)
    parts = multihost_utils.process_allgather(jnp.float32(step))
print("sum", float(parts.sum()), flush=True)
jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_a_process_of_jax_that_hangs_is_found_and_all_begin_anew(impatient: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "hangs.py"
    script.write_text(JAX_HANGS)
    done = run(impatient, "jax", python_of("JAX"), str(script))
    assert (done.status.restarts, done.status.starts) == (1, 2)
    assert done.lines.count("hangs") == 1
    assert done.lines.count("sum 78.0") == 2
    why = [event.reason for event in impatient.events() if event.subject == f"job:{done.job_id}"]
    assert any(text.startswith("hangs: none of its processes has done anything for") for text in why), why


@pytest.mark.slow
def test_a_killed_process_restarts_all_of_jax_from_the_checkpoint(cluster: Cluster) -> None:
    done = run(
        cluster,
        "jax",
        python_of("JAX"),
        "jax_sum.py",
        *("--steps", "60", "--pause", "0.02"),
        victim="worker/0",
        at="^step 20",
    )
    assert (done.status.restarts, done.status.starts) == (1, 2)
    first, second = done.addresses
    assert first != second
    assert "process 1 of 2, 2 devices, start 2" in done.lines
    total = sum(step * (1 + 2) for step in range(60))
    assert f"process 0: total {total}" in done.lines
    assert f"process 1: total {total}" in done.lines


@pytest.mark.nightly
def test_jax_learns_digits_although_a_process_is_killed(cluster: Cluster) -> None:
    done = run(
        cluster,
        "jax",
        python_with("JAX", "sklearn"),
        "jax_digits.py",
        *("--epochs", "12", "--pause", "0.2"),
        victim="worker/1",
        at="^epoch 4,",
    )
    assert (done.status.restarts, done.status.starts) == (1, 2)
    begins = re.findall(r"2 processes begin at epoch (\d+)", done.text)
    assert begins[0] == "0" and int(begins[1]) >= 4
    accuracy = re.search(r"that it has not seen: ([\d.]+)", done.text)
    assert accuracy is not None and float(accuracy[1]) > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("tf_config", ["full", "sparse"])
def test_a_killed_worker_of_tensorflow_alone_starts_again(cluster: Cluster, tf_config: str) -> None:
    done = run(
        cluster,
        "tensorflow",
        python_of("TENSORFLOW"),
        "tensorflow_ps.py",
        *("--steps", "900", "--pause", "0.02"),
        victim="worker/1",
        at="^worker/1 step",
        tf_config=tf_config,
    )
    assert {client.name: client.restarts for client in done.status.clients} == {
        "worker/0": 0,
        "worker/1": 1,
        "ps/0": 0,
    }
    assert (done.status.restarts, done.status.starts) == (1, 1)
    assert done.addresses[:3] == done.addresses[3:], "it comes back where the others look for it"
    assert done.lines.count("worker/1 serves") == 2
    assert done.lines.count("worker/0 done") == 1


@pytest.mark.slow
def test_a_killed_ps_of_tensorflow_comes_back_with_the_newest_checkpoint(cluster: Cluster) -> None:
    done = run(
        cluster,
        "tensorflow",
        python_of("TENSORFLOW"),
        "tensorflow_ps.py",
        *("--steps", "600", "--pause", "0.02"),
        victim="ps/0",
        at=r"^worker/0 step (1\d\d|2\d\d)",
    )
    assert next(client for client in done.status.clients if client.name == "ps/0").restarts == 1
    assert done.status.starts == 1
    assert "worker/0 done" in done.lines
    assert done.status.clients[-1].state == "stopped", "a ps does not end by itself"
