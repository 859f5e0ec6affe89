"""The launcher owns the threads and the core type of BLAS in the processes it starts."""

from __future__ import annotations

import pytest

from dtfctl.launcher.agent.start.launch import base_environment, task_environment
from dtfctl.launcher.messages.orders import TaskOrder


@pytest.mark.parametrize(("cores", "tasks"), [(8, 1), (8, 3), (8, 8), (2, 2), (7, 2), (1, 1), (4, 0)])
def test_threads_of_all_tasks_fit_the_cores(cores: int, tasks: int) -> None:
    env = base_environment({}, cores, tasks)
    assert env["OPENBLAS_NUM_THREADS"] == env["OMP_NUM_THREADS"]
    threads = int(env["OMP_NUM_THREADS"])
    assert threads >= 1
    assert threads * tasks <= cores
    assert (threads + 1) * max(tasks, 1) > cores


def test_more_tasks_than_cores_have_a_thread_each() -> None:
    assert base_environment({}, 2, 5)["OMP_NUM_THREADS"] == "1"


def test_the_core_type_is_not_inherited_but_thread_counts_are() -> None:
    inherited = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "3", "HOME": "/home/me"}
    env = base_environment(inherited, 8, 2)
    assert "OPENBLAS_CORETYPE" not in env
    assert (env["OMP_NUM_THREADS"], env["OPENBLAS_NUM_THREADS"], env["HOME"]) == ("3", "4", "/home/me")


def test_tasks_keep_compiled_code_whatever_the_users_programs_do() -> None:
    base = base_environment({"PYTHONDONTWRITEBYTECODE": "1"}, 2, 1)
    assert base["PYTHONDONTWRITEBYTECODE"] == "1", "a job's processes get it"
    assert "PYTHONDONTWRITEBYTECODE" not in task_environment(base, TaskOrder("ps", 0), None)
    wanted = TaskOrder("ps", 0, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert task_environment(base, wanted, None)["PYTHONDONTWRITEBYTECODE"] == "1"


def test_python_finds_what_the_spec_says_below_this_hosts_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with ops that `sync` brings to ~/ops: tasks have to find it, as a job's processes do."""
    monkeypatch.setenv("HOME", "/home/me")
    wanted = TaskOrder("ps", 0, env={"PYTHONPATH": "~/ops:/shared/~x", "A": "~/b"})
    env = task_environment({}, wanted, None)
    assert (env["PYTHONPATH"], env["A"]) == ("/home/me/ops:/shared/~x", "~/b")
