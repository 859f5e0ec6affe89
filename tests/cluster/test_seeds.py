"""Tasks are forks of a seed that has imported the runtime: what they share with it, what not, and what if it dies."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import TaskGroup
from dtfctl.launcher.system.procfs import command_line, identify
from dtfctl.runtime.kernels.blas_in_use import blas_in_use
from tests.cluster.conftest import agent_pid, kill, pids, processes_of, spec_of, task, wait_until


def brought_up(ps: int = 1, worker: int = 1, **env: str) -> Cluster:
    """Real tasks; `env` is the environment of both groups."""
    groups = {"ps": TaskGroup(ps, env=env), "worker": TaskGroup(worker, env=env)}
    return brought_up_of(groups)


def brought_up_of(groups: dict[str, TaskGroup]) -> Cluster:
    cluster = Cluster.up(replace(spec_of(), tasks=groups)).cluster
    assert cluster is not None
    return cluster


def running(cluster: Cluster, name: str, incarnation: int) -> bool:
    found = task(cluster, name)
    return found.state == "running" and found.incarnation == incarnation


def parent(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def seed_of(cluster: Cluster, name: str) -> int:
    """The parent of its keeper."""
    return parent(parent(task(cluster, name).pid))


def agent_log(cluster: Cluster) -> str:
    return (ClusterPaths.of(cluster.name).logs / "agent-localhost.log").read_text()


def seeds(home: Path) -> list[str]:
    return [line for line in processes_of(home) if "dtfctl.seed" in line]


def test_tasks_of_one_environment_are_forks_of_one_seed_and_look_like_programs(home: Path) -> None:
    cluster = brought_up(ps=1, worker=2)
    found = pids(cluster)
    assert len({seed_of(cluster, name) for name in found}) == 1
    assert parent(seed_of(cluster, "ps/0")) == agent_pid(cluster)
    folder = ClusterPaths.of(cluster.name).host("localhost")
    for name, pid in found.items():
        assert pid is not None
        run = folder / "runs" / name.replace("/", "-") / "1"
        words = command_line(pid).split()
        assert words[1:] == ["-m", "dtfctl.task", str(run / "config.json")]
        assert "keeper" in command_line(parent(pid))
        assert Path(f"/proc/{pid}/cwd").readlink() == run
        assert os.getsid(pid) == os.getpgid(pid) == pid
        assert os.getsid(parent(pid)) == parent(pid)
        assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")


def test_a_fork_holds_nothing_of_its_seed_open(home: Path) -> None:
    cluster = brought_up(ps=1, worker=2)
    seed = seed_of(cluster, "ps/0")
    own = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{seed}/fd")}
    sockets = {name for name in own if name.startswith("socket:")}
    assert sockets
    for pid in pids(cluster).values():
        for process in (pid, parent(pid)):
            held = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{process}/fd")}
            assert not sockets & held
    keepers = [parent(pid) for pid in pids(cluster).values()]
    for keeper in keepers:
        held = sorted(os.readlink(entry.path) for entry in os.scandir(f"/proc/{keeper}/fd"))
        assert held.count("anon_inode:[pidfd]") == 1  # of its task


def test_a_killed_seed_takes_no_task_with_it_and_the_next_start_gets_a_new_one(home: Path) -> None:
    cluster = brought_up(ps=1, worker=1)
    before, seed = pids(cluster), seed_of(cluster, "worker/0")
    kill(seed)
    wait_until(lambda: "the seed of tasks has ended (killed by SIGKILL)" in agent_log(cluster), "the agent notices")
    kill(before["worker/0"])
    wait_until(lambda: running(cluster, "worker/0", 2), "back")
    assert pids(cluster)["ps/0"] == before["ps/0"]
    assert task(cluster, "worker/0").exit_code == 137
    assert seed_of(cluster, "worker/0") != seed
    assert parent(seed_of(cluster, "worker/0")) == agent_pid(cluster)


def test_how_a_fork_ends_is_known_after_its_seed_and_agent_were_killed(home: Path) -> None:
    cluster = brought_up(ps=1, worker=1)
    before, agent, seed = pids(cluster), agent_pid(cluster), seed_of(cluster, "ps/0")
    kill(agent)
    wait_until(lambda: identify(seed) is None, "a seed ends with its agent")
    wait_until(lambda: agent_pid(cluster) != agent and running(cluster, "worker/0", 1), "a new agent adopts the tasks")
    assert pids(cluster) == before
    kill(before["worker/0"], signal.SIGSEGV)
    again = wait_until(lambda: (t := task(cluster, "worker/0")).incarnation == 2 and t, "started again")
    assert again.exit_code == 139
    wait_until(lambda: running(cluster, "worker/0", 2), "back")
    assert pids(cluster)["ps/0"] == before["ps/0"]


def test_a_seed_that_does_not_answer_is_given_up_and_the_task_starts_as_a_program(home: Path) -> None:
    cluster = brought_up(ps=1, worker=1)
    before, seed = pids(cluster), seed_of(cluster, "worker/0")
    kill(seed, signal.SIGSTOP)
    kill(before["worker/0"])
    wait_until(lambda: running(cluster, "worker/0", 2), "back")
    assert task(cluster, "worker/0").restarts == 1
    assert parent(parent(task(cluster, "worker/0").pid)) == agent_pid(cluster)
    assert "the seed of tasks has failed (killed by SIGKILL)" in agent_log(cluster)
    assert pids(cluster)["ps/0"] == before["ps/0"]


def test_a_task_that_waits_for_a_seed_can_be_stopped(home: Path) -> None:
    cluster = brought_up(ps=1, worker=1)
    before, seed = pids(cluster), seed_of(cluster, "worker/0")
    kill(seed, signal.SIGSTOP)
    kill(before["worker/0"])
    wait_until(lambda: task(cluster, "worker/0").incarnation == 2, "asked for")
    cluster.stop("worker/0")
    wait_until(lambda: task(cluster, "worker/0").state == "stopped", "stopped")
    kill(seed, signal.SIGCONT)
    cluster.start("worker/0")
    wait_until(lambda: running(cluster, "worker/0", 3), "started")
    assert seed_of(cluster, "worker/0") == seed


def test_environments_that_differ_have_seeds_of_their_own(home: Path, tmp_path: Path) -> None:
    groups = {"ps": TaskGroup(1, env={"OPENBLAS_NUM_THREADS": "2"}), "worker": TaskGroup(1, env={"A": "b"})}
    cluster = brought_up_of(groups)
    assert seed_of(cluster, "ps/0") != seed_of(cluster, "worker/0")
    if not blas_in_use():
        pytest.skip("numpy's BLAS here is not OpenBLAS")
    wait_until(lambda: task(cluster, "ps/0").blas and task(cluster, "worker/0").blas, "status shows the BLAS")
    assert task(cluster, "ps/0").blas.endswith(" x2")
    # A seed has none of the threads that its forks compute with.
    assert len(os.listdir(f"/proc/{seed_of(cluster, 'ps/0')}/task")) == 1


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import threading, time; threading.Thread(target=time.sleep, args=(999,), daemon=True).start()", "unsafe"),
        ("raise SystemExit('not in the mood')", "not in the mood"),
    ],
)
def test_where_a_seed_is_impossible_tasks_are_programs(home: Path, tmp_path: Path, code: str, says: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    test = "import sys\nif 'dtfctl.seed' in ' '.join(sys.orig_argv):\n    "
    (site / "sitecustomize.py").write_text(f"{test}{code}\n")
    cluster = brought_up(PYTHONPATH=str(site))
    assert {parent(parent(pid)) for pid in pids(cluster).values()} == {agent_pid(cluster)}
    assert "each task imports the runtime itself" in agent_log(cluster)
    assert says in agent_log(cluster)
    assert {item.restarts for item in cluster.status().tasks} == {0}
    assert not seeds(home)


def test_a_seed_whose_modules_have_changed_is_replaced(home: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    module = site / "sitecustomize.py"
    module.write_text("version = 1\n")
    cluster = brought_up(PYTHONPATH=str(site))
    before = seed_of(cluster, "ps/0")
    module.write_text("version = 'two'\n")
    kill(pids(cluster)["worker/0"])
    wait_until(lambda: running(cluster, "worker/0", 2), "back")
    assert seed_of(cluster, "worker/0") != before
    assert f"{module} has changed: a new seed of tasks" in agent_log(cluster)
    assert len(seeds(home)) == 1
