"""The variables of every framework, and what each of them asks of the launcher."""

from __future__ import annotations

import json

import pytest

from dtfctl.launcher.controller.state import frameworks
from dtfctl.launcher.controller.state.frameworks import Group, Member


def torch_env(group: Group, name: str) -> dict[str, str]:
    me = group.member(name)
    assert me is not None
    return frameworks.of("torch").variables(group, me)


GROUP = Group(
    "train-1",
    3,
    (
        Member("worker/0", "b", ("10.0.0.2:4000",)),
        Member("worker/1", "a", ("10.0.0.1:4001",)),
        Member("worker/2", "b", ("10.0.0.2:4002",)),
    ),
)


def test_torch_ranks_count_over_the_group_and_on_each_host() -> None:
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "WORLD_SIZE", "GROUP_WORLD_SIZE")
    ranks = [[int(torch_env(GROUP, member.name)[name]) for name in names] for member in GROUP.members]
    assert ranks == [[0, 0, 2, 0, 3, 2], [1, 0, 1, 1, 3, 2], [2, 1, 2, 0, 3, 2]]
    env = torch_env(GROUP, "worker/2")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("10.0.0.2", "4000")
    assert (env["TORCHELASTIC_RESTART_COUNT"], env["TORCHELASTIC_RUN_ID"]) == ("2", "train-1-3")
    assert env["TORCHELASTIC_USE_AGENT_STORE"] == "False"


def test_jax_coordinator_is_the_chief() -> None:
    env = frameworks.of("jax").variables(GROUP, GROUP.members[2])
    assert env == {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.2:4000",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "2",
    }


TF_GROUP = Group(
    "train-1",
    1,
    (
        Member("chief/0", "a", ("a:1",)),
        Member("worker/0", "a", ("a:2",)),
        Member("worker/1", "b", ("b:3",)),
        Member("evaluator/0", "b"),
        Member("ps/0", "a", ("a:4",)),
    ),
)
TABLE = {"chief": ["a:1"], "ps": ["a:4"], "worker": ["a:2", "b:3"]}


@pytest.mark.parametrize("name", ["chief/0", "worker/1", "ps/0", "evaluator/0"])
def test_tf_config_names_every_server_and_who_reads_it(name: str) -> None:
    me = TF_GROUP.member(name)
    assert me is not None
    config = json.loads(frameworks.of("tensorflow").variables(TF_GROUP, me)["TF_CONFIG"])
    assert config == {"cluster": TABLE, "task": {"type": me.role, "index": me.index}}


def test_in_the_sparse_form_a_worker_knows_itself_and_the_ps() -> None:
    group = Group("train-1", 1, TF_GROUP.members, {"tf_config": "sparse"})
    worker, ps = group.member("worker/1"), group.member("ps/0")
    assert worker is not None
    assert ps is not None
    variables = frameworks.of("tensorflow").variables
    assert json.loads(variables(group, worker)["TF_CONFIG"]) == {
        "sparseCluster": {"worker": {"1": "b:3"}, "ps": ["a:4"]},
        "task": {"type": "worker", "index": 1},
    }
    assert json.loads(variables(group, ps)["TF_CONFIG"])["cluster"] == TABLE


def test_what_follows_a_death() -> None:
    kinds = {name: frameworks.of(name).restarts for name in ("dtf", "command", "tensorflow", "torch", "jax")}
    assert kinds == {"dtf": "each", "command": "each", "tensorflow": "each", "torch": "all", "jax": "all"}
