"""What Slurm is asked, and what is read of its answers; `tests/slurm` does it with a real one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.controller.decisions.changes import check_possible
from dtfctl.launcher.errors import Conflict, UsageError
from dtfctl.launcher.operator.adopt import take_over
from dtfctl.launcher.operator.check_hosts import check_hosts
from dtfctl.launcher.operator.clean_hosts import clean_hosts
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import silent
from dtfctl.launcher.providers.slurm import commands
from dtfctl.launcher.providers.slurm.allocation import asked_for
from dtfctl.launcher.providers.slurm.commands import Node, environment, first_error, parse_job, show_job
from dtfctl.launcher.providers.slurm.provider import SlurmProvider
from dtfctl.launcher.providers.slurm.reasons import explained
from dtfctl.launcher.providers.slurm.step import srun_words, step_environment
from dtfctl.launcher.spec.document import from_json, to_json
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import ClusterSpec, Slurm
from dtfctl.launcher.spec.problems import InvalidSpec

RUNS = (
    "JobId=17 JobName=dtfctl-lab UserId=ann(1) Priority=1 Comment=ab12 JobState=RUNNING Reason=None Dependency=(null) "
    "Requeue=1 Restarts=2 TimeLimit=08:00:00 StartTime=2026-11-23T21:00:00 EndTime=2026-11-24T05:00:00 "
    "Partition=gpu ReqNodeList=(null) ExcNodeList=(null) NodeList=n[1-3] NumNodes=3 Command=(null) JobId=99"
)


def test_a_job_that_runs_is_read() -> None:
    job = parse_job(RUNS)
    assert job is not None
    assert (job.id, job.state, job.nodes, job.restarts, job.comment) == ("17", "RUNNING", "n[1-3]", 2, "ab12")
    assert job.ends == time.mktime((2026, 11, 24, 5, 0, 0, 0, 0, -1))
    assert job.runs and not job.is_over


@pytest.mark.parametrize(
    ("said", "state", "over", "ends"),
    [
        (
            "JobId=1 JobState=PENDING Reason=Resources NodeList=(null) StartTime=Unknown EndTime=Unknown",
            "",
            False,
            None,
        ),
        ("JobId=1 JobState=COMPLETING Reason=None NodeList=n1", "", False, None),
        ("JobId=1 JobState=CANCELLED Reason=None NodeList=n1", "", True, None),
        ("JobId=1 JobState=RUNNING TimeLimit=UNLIMITED EndTime=2027-01-01T00:00:00 NodeList=n1", "", False, None),
    ],
)
def test_other_states_are_read(said: str, state: str, over: bool, ends: float | None) -> None:
    job = parse_job(said)
    assert job is not None
    assert (job.is_over, job.ends) == (over, ends)


def test_nothing_is_read_of_nothing() -> None:
    assert parse_job("") is None
    assert parse_job("slurm_load_jobs error") is None


def test_what_is_asked_for_says_all_of_the_file() -> None:
    words = asked_for("lab", Slurm(nodes=2, time=90.0, partition="gpu", cpus=4, memory=2**30, extra=("--nice",)), "tok")
    assert {"--nodes=2", "--time=2", "--partition=gpu", "--cpus-per-task=4", "--mem=1024M", "--nice"} <= set(words)
    assert {"--job-name=dtfctl-lab", "--comment=tok", "--no-kill", "--requeue"} <= set(words)
    assert "--exclusive" not in words


def test_a_command_of_slurms_gets_no_options_of_the_job_in_which_it_runs() -> None:
    given = {"SLURM_JOB_ID": "3", "SBATCH_PARTITION": "x", "SLURM_CONF": "/c", "PATH": "/bin", "DTF_TASK_INDEX": "0"}
    assert environment(given) == {"SLURM_CONF": "/c", "PATH": "/bin"}


def test_a_step_gets_a_logins_variables_and_none_that_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    assert "AWS_SECRET_ACCESS_KEY" not in step_environment(Node("n1", "10.0.0.1", False))
    words = srun_words("17", "n1", "true")
    assert {"--overlap", "--jobid=17", "--nodelist=n1", "--ntasks=1"} <= set(words)


def test_slurms_own_words_are_told_without_its_noise() -> None:
    said = (
        "srun: error: can not load PMIx library\nsrun: error: Unable to create step for job 5: Invalid job id\nsrun: x"
    )
    assert first_error(said, "srun") == "Unable to create step for job 5: Invalid job id"


def test_an_option_that_sbatch_does_not_know_is_named() -> None:
    said = "sbatch: unrecognized option '--wrong'\nTry \"sbatch --help\" for more information\n"
    assert first_error(said, "sbatch") == "unrecognized option '--wrong'"


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("AssocGrpNodeLimit", "sacctmgr show assoc"),
        ("QOSMaxJobsPerUserLimit", "sacctmgr show qos"),
        ("PartitionTimeLimit", "slurm: {time: 1h}"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "sinfo -R"),
        ("JobHeldUser", "scontrol release 17"),
    ],
)
def test_a_reason_for_which_waiting_is_not_enough_says_what_to_do(reason: str, advice: str) -> None:
    said = explained(reason, "17")
    assert said.startswith(reason) and advice in said


@pytest.mark.parametrize("reason", ["Resources", "Priority", "BeginTime", "Dependency"])
def test_a_reason_to_wait_is_left_as_it_is(reason: str) -> None:
    assert explained(reason, "17") == reason


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(commands.ClusterFailed, match="no `sbatch` on this machine") as caught:
        commands.submit([], "")
    assert "login node" in caught.value.hint


# ---------------------------------------------------------------------- the file

SPEC = "cluster: lab\nprovider: slurm\ntasks: {ps: 1, worker: 2}\n"


def test_what_may_run_on_a_node_is_not_passed_by_before_it_is_known_whether_it_is_lent(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path / "lab")
    provider = SlurmProvider(paths)
    try:
        assert not provider.may_run("slurm-0")
        paths.host("slurm-0").mkdir(parents=True)
        (paths.host("slurm-0") / "endpoint.json").write_text("{}")
        assert provider.may_run("slurm-0")
    finally:
        provider.close()


def test_lent_hosts_have_names_of_their_own() -> None:
    spec = parse_spec(SPEC + "slurm: {nodes: 3, slots: 2}\n")
    assert [(host.name, host.slots) for host in spec.hosts] == [("slurm-0", 2), ("slurm-1", 2), ("slurm-2", 2)]
    assert not spec.is_local
    assert from_json(to_json(spec)) == spec


def test_inside_an_allocation_it_says_how_many_there_are() -> None:
    assert len(parse_spec(SPEC, environ={"SLURM_JOB_NUM_NODES": "4"}).hosts) == 4
    assert len(parse_spec(SPEC + "slurm: {nodes: 2}\n", environ={"SLURM_JOB_NUM_NODES": "4"}).hosts) == 2
    assert len(parse_spec(SPEC, environ={}).hosts) == 1


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("hosts: n[1-4]\n", "names the hosts itself"),
        ("ssh: {user: ann}\n", "does not log in"),
        ("controller: host\n", "would end with it"),
        ("slurm: {extra: [--nodes=7]}\n", "`--nodes` is dtfctl's own"),
        ("slurm: {time: 1m, margin: 2m}\n", "`margin` is not shorter than `time`"),
        ("slurm: {nodes: 1, slots: 2}\n", "3 slots"),
        ("slurm: {partition: 'a b; rm'}\n", "partition"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_file(more: str, problem: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(SPEC + more)
    assert problem in str(caught.value)


def test_slurm_without_its_provider_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="without `provider: slurm`"):
        parse_spec("cluster: lab\ntasks: {worker: 1}\nslurm: {nodes: 2}\n")


def test_what_was_asked_for_cannot_change_while_it_is_lent() -> None:
    before = parse_spec(SPEC + "slurm: {nodes: 2}\n")
    with pytest.raises(Conflict, match="what is asked of Slurm"):
        check_possible(before, parse_spec(SPEC + "slurm: {nodes: 3}\n"))
    check_possible(before, parse_spec(SPEC + "slurm: {nodes: 2, on_limit: requeue, margin: 5m}\n"))


@pytest.mark.parametrize(
    "call", [check_hosts, clean_hosts, lambda spec: take_over(ClusterPaths.of(spec.cluster), spec, silent)]
)
def test_what_logs_in_to_hosts_is_refused(call: Callable[[ClusterSpec], object]) -> None:
    with pytest.raises(UsageError, match="lends these") as caught:
        call(parse_spec(SPEC))
    assert "dtfctl down -c lab" in caught.value.hint


def test_times_are_read_however_the_user_likes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "scontrol"
    program.write_text(
        "#!/bin/sh\n"
        'echo "JobId=1 JobState=RUNNING TimeLimit=10 EndTime=$(date -d @1800000000 "+${SLURM_TIME_FORMAT:-none}")"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    job = show_job("1")
    assert job is not None and job.ends == 1_800_000_000.0
