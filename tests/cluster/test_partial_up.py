"""`up` of a part of a spec, `--min-ready`, `--recreate`, and what `down` deletes: the program with real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.paths import ClusterPaths
from tests.cluster.commands import SPEC, Shell
from tests.cluster.conftest import wait_until


@pytest.fixture
def dtfctl(home: Path, tmp_path: Path) -> Shell:
    (tmp_path / "c.yaml").write_text(SPEC)
    return Shell(tmp_path, {})


def write(dtfctl: Shell, tasks: str, more: str = "") -> None:
    (dtfctl.folder / "c.yaml").write_text(f"cluster: cli\ntasks: {tasks}\n{more}")


def states(dtfctl: Shell) -> dict[str, str]:
    return {task["name"]: task["state"] for task in dtfctl.json("status")["tasks"]}


def pids(dtfctl: Shell) -> dict[str, Any]:
    return {task["name"]: task["pid"] for task in dtfctl.json("status")["tasks"]}


def test_up_of_some_tasks_leaves_the_others_out_until_they_are_asked_for(dtfctl: Shell) -> None:
    plan = dtfctl("up", "c.yaml", "--only", "ps", "--dry-run").stdout
    assert "start ps/0 on localhost" in plan and "leave out worker/1 on localhost" in plan

    done = dtfctl("up", "c.yaml", "--only", "ps")
    assert (done.returncode, done.stdout.split(" (")[0]) == (0, "cli is up: 1/1 tasks run of ps")
    wait_until(lambda: states(dtfctl)["worker/1"] == "stopped", "the agent has taken its orders")
    assert states(dtfctl) == {"ps/0": "running", "worker/0": "stopped", "worker/1": "stopped"}
    assert "`up --only ps` has left it out" in dtfctl("why", "worker/0").stdout
    first = pids(dtfctl)

    assert dtfctl("up", "c.yaml", "--only", "worker/1").returncode == 0
    assert (states(dtfctl)["worker/0"], states(dtfctl)["worker/1"]) == ("stopped", "running")
    assert dtfctl("start", "worker/0").returncode == 0, "what was left out is started as what was stopped"
    again = dtfctl("up", "c.yaml")
    assert again.stdout.startswith("cli was up already: 3/3 tasks run")
    assert pids(dtfctl)["ps/0"] == first["ps/0"]


def test_a_whole_up_starts_what_was_left_out(dtfctl: Shell) -> None:
    assert dtfctl("up", "c.yaml", "--only", "worker/0,worker/1").returncode == 0
    done = dtfctl("up", "c.yaml")
    assert (done.returncode, done.stdout.split(" (")[0]) == (0, "cli is up: 3/3 tasks run")
    assert dtfctl("up", "c.yaml", "--only", "nobody").returncode == 4
    assert dtfctl("up", "c.yaml", "--only", "worker/x").returncode == 2


def test_other_tasks_keep_their_definition_until_a_whole_up(dtfctl: Shell) -> None:
    assert dtfctl("up", "c.yaml").returncode == 0
    before = pids(dtfctl)
    write(dtfctl, "{ps: 1, worker: 2}", 'env: {NEW: "1"}\n')
    assert dtfctl("up", "c.yaml", "--only", "worker/1").returncode == 0
    part = pids(dtfctl)
    assert {name for name in before if part[name] != before[name]} == {"worker/1"}
    assert dtfctl("plan", "c.yaml").stdout.count("its env changed") == 2
    assert dtfctl("up", "c.yaml").returncode == 0
    whole = pids(dtfctl)
    assert {name for name in part if whole[name] != part[name]} == {"ps/0", "worker/0"}
    assert dtfctl("plan", "c.yaml").stdout == "cli: nothing to change\n"


def test_tasks_that_the_file_has_no_more_stay_beside_a_partial_up_unless_it_prunes(dtfctl: Shell) -> None:
    write(dtfctl, "{ps: 1, worker: 3, evaluator: 1}")
    assert dtfctl("up", "c.yaml").returncode == 0
    before = pids(dtfctl)
    write(dtfctl, "{ps: 1, worker: 2}")
    assert dtfctl("up", "c.yaml", "--only", "ps").returncode == 0
    assert pids(dtfctl) == before
    plan = dtfctl("up", "c.yaml", "--only", "ps", "--prune", "--dry-run").stdout
    assert "stop worker/2" in plan and "stop evaluator/0" in plan
    assert dtfctl("up", "c.yaml", "--only", "ps", "--prune").returncode == 0
    assert pids(dtfctl) == {name: before[name] for name in ("ps/0", "worker/0", "worker/1")}

    write(dtfctl, "{ps: 1, worker: 1}")
    assert dtfctl("up", "c.yaml").returncode == 0
    assert pids(dtfctl) == {name: before[name] for name in ("ps/0", "worker/0")}, "a whole `up` needs no --prune"


def test_min_ready_does_not_wait_for_the_rest(dtfctl: Shell) -> None:
    write(dtfctl, "{ps: 1, worker: {count: 1, env: {STUB_SLOW: '600'}}}")
    done = dtfctl("up", "c.yaml", "--min-ready", "1")
    assert (done.returncode, done.stdout.split(" (")[0]) == (0, "cli comes up: 1/2 tasks run")
    assert states(dtfctl) == {"ps/0": "running", "worker/0": "starting"}
    assert dtfctl("up", "c.yaml", "--timeout", "1s").returncode == 9
    assert dtfctl("up", "c.yaml", "--no-wait").returncode == 0


def test_recreate_makes_everything_anew(dtfctl: Shell) -> None:
    assert dtfctl("up", "c.yaml", "--recreate").returncode == 0, "nothing was there"
    before = pids(dtfctl)
    controller = dtfctl.json("status")["controller"]["pid"]
    assert dtfctl("up", "c.yaml", "--recreate", "--dry-run").returncode == 0
    assert pids(dtfctl) == before
    assert dtfctl("up", "c.yaml", "--recreate").returncode == 0
    after = pids(dtfctl)
    assert after.keys() == before.keys() and not set(after.values()) & set(before.values())
    assert dtfctl.json("status")["controller"]["pid"] != controller
    assert {task["incarnation"] for task in dtfctl.json("status")["tasks"]} == {1}


def test_down_keeps_the_logs_or_deletes_them(dtfctl: Shell, home: Path) -> None:
    logs = ClusterPaths.of("cli").logs
    assert dtfctl("up", "c.yaml").returncode == 0
    assert dtfctl("down", "--keep-logs").returncode == 0
    assert (logs / "worker-0.log").exists()
    assert dtfctl("up", "c.yaml").returncode == 0
    assert dtfctl("down", "--delete-logs").returncode == 0
    assert not logs.exists()


def test_down_deletes_logs_in_a_folder_of_the_users_too(dtfctl: Shell, tmp_path: Path) -> None:
    write(dtfctl, "{worker: 1}", f"logs: {{dir: {tmp_path / 'mine'}}}\n")
    assert dtfctl("up", "c.yaml").returncode == 0
    assert (tmp_path / "mine" / "cli" / "worker-0.log").exists()
    (tmp_path / "mine" / "other.txt").write_text("not ours")
    assert dtfctl("down", "--delete-logs").returncode == 0
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["other.txt"]


def test_scale_comes_back_at_once_and_says_when_there_is_no_room(dtfctl: Shell) -> None:
    write(
        dtfctl, "{ps: 1, worker: {count: 1, env: {STUB_SLOW: '600'}}}", "hosts: {all: {names: localhost, slots: 3}}\n"
    )
    assert dtfctl("up", "c.yaml", "--no-wait").returncode == 0
    assert dtfctl("scale", "worker=2", "--no-wait").returncode == 0
    assert states(dtfctl)["worker/1"] in ("pending", "starting")
    refused = dtfctl("scale", "worker=9", "--no-wait")
    assert (refused.returncode, "no slot is left" in refused.stderr) == (7, True)


def test_status_of_problems_alone(dtfctl: Shell) -> None:
    write(dtfctl, "{ps: 1, worker: {count: 1, env: {STUB_EXIT: '3'}}}", "restart: {when: never}\n")
    assert dtfctl("up", "c.yaml").returncode == 1
    shown = dtfctl("status", "--problems").stdout
    assert "worker/0 is failed: exit code 3" in shown and "this stub is told to fail" in shown
    assert "TASK" not in shown
    content = json.loads(dtfctl("status", "--problems", "-o", "json").stdout)
    assert [task["name"] for task in content["tasks"]] == ["worker/0"]
    assert len(content["problems"]) == 1
