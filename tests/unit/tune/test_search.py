"""A study led to its end, with a stand-in for the cluster: jobs that end when they are looked at."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dtfctl.launcher.errors import ClusterFailed, Conflict, ControllerUnreachable, NoSuchCluster, UsageError
from dtfctl.launcher.model import JobRequest, JobStatus, Progress
from dtfctl.tune import report
from dtfctl.tune.sampling import importance
from dtfctl.tune.search import Program, Search
from dtfctl.tune.space import Budget, Choices, Range, Stop, Study

pytest.importorskip("optuna")

PARAMETERS = {"lr": Range(1e-4, 1.0, log=True), "n": Range(1, 9, whole=True), "act": Choices(("relu", "tanh"))}


class Away(Exception):
    """The process that leads a study is killed here."""


class FakeCluster:
    """Runs jobs at once: the score is best at lr 0.01 with relu, and better after more steps."""

    name = "fake"

    def __init__(self, tasks: int = 2) -> None:
        self.requests: dict[str, JobRequest] = {}
        self.cancelled: list[str] = []
        self.dies_after = -1
        self.unreachable = 0
        self.hosts = 1
        self.tasks = [SimpleNamespace(name=f"worker/{n}") for n in range(tasks)] + [SimpleNamespace(name="ps/0")]
        self.most = 0
        self.fails: Any = lambda trial: False
        self.loses: Any = lambda name: False

    def status(self) -> Any:
        return SimpleNamespace(hosts=[None] * self.hosts, tasks=self.tasks)

    def submit(self, request: JobRequest) -> str:
        assert request.id is not None
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", request.id)
        if request.resume is not None:
            assert request.resume in self.requests
        self.requests.setdefault(request.id, request)
        if len(self.requests) == self.dies_after:
            raise Away
        return request.id

    def newer_jobs(self, ids: tuple[str, ...], version: int, wait_s: float) -> tuple[list[JobStatus], int]:
        if self.unreachable:
            self.unreachable -= 1
            raise ControllerUnreachable("it is away")
        self.most = max(self.most, len(ids))
        return [self._job(name) for name in ids], version + 1

    def _job(self, name: str) -> JobStatus:
        request = self.requests[name]
        described = json.loads(request.env["DTF_TRIAL"])
        words = dict(zip(request.args[::2], request.args[1::2]))
        score = 1 - abs(math.log10(float(words["--lr"])) + 2) / 4 - (words["--act"] == "tanh") * 0.1
        score += int(words.get("--steps", 0)) / 1000 + described["execution"] / 100
        failed = self.fails(described["trial"])
        lost = self.loses(name)
        metrics = {} if failed or lost else {"score": score, "loss": 1 - score}
        state: Any = "cancelled" if name in self.cancelled else "failed" if failed else "succeeded"
        return JobStatus(
            name, name, state, "between-graph", "s", started=1.0, ended=2.0, exit_code=int(failed),
            progress=Progress(1, None, metrics), restarts=int(lost), checkpoint_dir=f"/saves/{name}",
        )  # fmt: skip

    def cancel(self, job_ids: list[str], *, grace_s: float) -> list[JobStatus]:
        self.cancelled += job_ids
        return []


def a_study(**changes: Any) -> Study:
    given: dict[str, Any] = {"parameters": PARAMETERS, "metric": "score", "maximize": True, "trials": 12, **changes}
    return Study(**given)


def lead(cluster: FakeCluster, study: Study, folder: Path) -> Search:
    search = Search(cluster, study, Program(str(folder.parent / "train.py"), (), "train"), folder)
    try:
        search.run()
    finally:
        search.close()
    return search


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "qmc", "random"])
def test_every_sampler_finds_something_good(tmp_path: Path, sampler: str) -> None:
    cluster = FakeCluster()
    search = lead(cluster, a_study(sampler=sampler, trials=20), tmp_path / "s")
    assert len(cluster.requests) == 20 and cluster.most == 2 and search.over == "all trials have run"
    assert search.best is not None and (search.best.score or 0) > 0.8


@pytest.mark.parametrize(
    ("scheduler", "sampler", "dies_after"),
    [("none", "cmaes", 7), ("asha", "tpe", 1), ("asha", "tpe", 13), ("hyperband", "tpe", 7)],
)
def test_a_study_whose_leader_dies_goes_on_as_if_it_had_not(
    tmp_path: Path, scheduler: str, sampler: str, dies_after: int
) -> None:
    study = a_study(scheduler=scheduler, sampler=sampler, budget=Budget("steps", 10, 90), trials=14)
    whole = FakeCluster(tasks=1)
    wanted = lead(whole, study, tmp_path / "whole")
    cluster = FakeCluster(tasks=1)
    cluster.dies_after = dies_after
    with pytest.raises(Away):
        lead(cluster, study, tmp_path / "s")
    cluster.dies_after = -1
    with (tmp_path / "s" / "study.jsonl").open("a") as out:
        out.write('{"begin": {"tri')  # it died while it wrote
    found = lead(cluster, study, tmp_path / "s")
    assert found.records.legs == wanted.records.legs
    assert {key: e.score for key, e in found.records.ended.items()} == {
        key: e.score for key, e in wanted.records.ended.items()
    }
    assert len(cluster.requests) == len(whole.requests), "no leg ran twice"


def test_a_score_that_was_lost_with_its_host_is_made_again(tmp_path: Path) -> None:
    """By a job that begins where the leg began: the one that was restarted finds its work done, and tells nothing."""
    study = a_study(scheduler="asha", budget=Budget("steps", 10, 90), sampler="random", trials=6, executions=2)
    wanted = lead(FakeCluster(tasks=1), study, tmp_path / "whole")
    cluster = FakeCluster(tasks=1)
    cluster.loses = lambda name: re.search(r"-t2-0-1$|-t\d-1-0$", name) is not None
    search = lead(cluster, study, tmp_path / "s")
    assert {k: e.score for k, e in search.records.ended.items()} == {
        k: e.score for k, e in wanted.records.ended.items()
    }
    again = [request for name, request in cluster.requests.items() if "-again1-" in name]
    assert len(again) > 2 and all((r.resume is None) == ("-t2-0" in str(r.id)) for r in again)
    cluster.loses = lambda name: "-t1-0" in name
    search = lead(cluster, study, tmp_path / "never")
    assert (
        "told no finite" in search.records.ended[1, 0].reason and search.records.attempt(search.records.legs[1, 0]) == 3
    )


@pytest.mark.parametrize("scheduler", ["none", "asha"])
def test_what_ctrl_c_cancelled_runs_again(tmp_path: Path, scheduler: str) -> None:
    study = a_study(scheduler=scheduler, budget=Budget("steps", 10, 90), sampler="random", trials=6)
    wanted = lead(FakeCluster(tasks=1), study, tmp_path / "whole")
    cluster = FakeCluster(tasks=1)
    search = Search(cluster, study, Program(str(tmp_path / "train.py"), (), "train"), tmp_path / "s")

    def interrupt() -> None:
        if len(cluster.requests) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.run(interrupt)
    search.stop()
    search.cancel_running()
    search.close()
    assert cluster.cancelled == [list(cluster.requests)[-1]]
    found = lead(cluster, study, tmp_path / "s")
    assert not [ended.reason for ended in found.records.ended.values() if ended.score is None]
    assert found.records.legs == wanted.records.legs
    assert {key: e.score for key, e in found.records.ended.items()} == {
        key: e.score for key, e in wanted.records.ended.items()
    }
    assert len(cluster.requests) == len(wanted.records.legs) + 1


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Conflict, match="cannot be kept in"):
        Search(FakeCluster(), a_study(), Program("train.py"), tmp_path / "file")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "study.jsonl").write_text('{"study": {"uid": 1}}\nnot json\n')
    with pytest.raises(Conflict, match=r"study\.jsonl:1 is no record"):
        Search(FakeCluster(), a_study(), Program("train.py"), tmp_path / "s")


def test_who_goes_on_does_so_from_its_own_checkpoints(tmp_path: Path) -> None:
    cluster = FakeCluster()
    search = lead(cluster, a_study(scheduler="asha", budget=Budget("steps", 10, 90)), tmp_path / "s")
    resumed = [request for request in cluster.requests.values() if request.resume]
    assert resumed
    for request in resumed:
        before = cluster.requests[request.resume or ""]
        assert json.loads(before.env["DTF_TRIAL"])["trial"] == json.loads(request.env["DTF_TRIAL"])["trial"]
        assert int(request.args[-1]) > int(before.args[-1]) and request.args[-2] == "--steps"
    assert search.best is not None and search.records.legs[search.best.key].budget == 90


def test_a_population_begins_from_copies_of_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trains')\n")
    cluster = FakeCluster(tasks=4)
    lead(cluster, a_study(scheduler="pbt", budget=Budget("steps", 10, 40), trials=4), tmp_path / "s")
    assert len(cluster.requests) == 16 and not any(request.resume for request in cluster.requests.values())
    copied = [request.env["DTF_TRIAL_FROM"] for request in cluster.requests.values() if "DTF_TRIAL_FROM" in request.env]
    assert len(copied) == 12 and all(folder.removeprefix("/saves/") in cluster.requests for folder in copied)
    cluster.hosts = 2
    with pytest.raises(UsageError, match="one host"):
        lead(cluster, a_study(scheduler="pbt", budget=Budget("steps", 10, 40), trials=4), tmp_path / "t")


def test_executions_of_a_trial_are_averaged(tmp_path: Path) -> None:
    cluster = FakeCluster()
    search = lead(cluster, a_study(executions=3, trials=4), tmp_path / "s")
    assert len(cluster.requests) == 12
    for ended in search.records.ended.values():
        assert len(ended.scores) == 3 and ended.score == pytest.approx(sum(ended.scores) / 3)
        assert ended.scores[2] == pytest.approx(ended.scores[0] + 0.02)


@pytest.mark.parametrize(
    ("stop", "says"), [(Stop(score=0.5), "is reached"), (Stop(patience=3), "no better"), (Stop(seconds=0.0), "over")]
)
def test_a_study_ends_early_where_it_is_told_to(tmp_path: Path, stop: Stop, says: str) -> None:
    cluster = FakeCluster()
    search = lead(cluster, a_study(trials=500, sampler="random", stop=stop), tmp_path / "s")
    assert len(cluster.requests) < 100 and says in search.over


@pytest.mark.parametrize("scheduler", ["asha", "hyperband"])
def test_patience_is_with_trials_that_ran_for_the_whole_budget(tmp_path: Path, scheduler: str) -> None:
    """One that is far ahead of the others has not won: they begin with less, and go on."""
    budget = Budget("steps", 10, 90)
    study = a_study(trials=500, sampler="random", scheduler=scheduler, budget=budget, stop=Stop(patience=3))
    search = lead(FakeCluster(), study, tmp_path / "s")
    assert "3 trials were no better" in search.over
    whole = [one.score for key, one in search.records.ended.items() if search.records.legs[key].budget == 90]
    assert search.best is not None and len(whole) - 1 - whole.index(search.best.score) >= 3


def test_trials_that_fail_are_told_and_left(tmp_path: Path) -> None:
    cluster = FakeCluster()
    cluster.fails = lambda trial: trial % 2 == 0
    search = lead(cluster, a_study(), tmp_path / "s")
    assert sum(ended.score is None for ended in search.records.ended.values()) == 6
    assert "exit code 1" in search.records.ended[0, 0].reason
    cluster.fails = lambda trial: True
    with pytest.raises(ClusterFailed, match=r"the first 5 trials have no score: .*exit code 1"):
        lead(cluster, a_study(trials=50), tmp_path / "t")
    with pytest.raises(ClusterFailed, match=r"all trials have no score: .*exit code 1"):
        lead(cluster, a_study(trials=3), tmp_path / "u")


def test_the_controller_may_be_away_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfctl.tune.search.AGAIN_S", 0.0)
    cluster = FakeCluster()
    cluster.unreachable = 3
    assert len(lead(cluster, a_study(), tmp_path / "s").records.ended) == 12


def test_one_study_is_led_once_and_is_not_another(tmp_path: Path) -> None:
    cluster, study = FakeCluster(), a_study()
    first = Search(cluster, study, Program("train.py"), tmp_path / "s")
    with pytest.raises(Conflict, match="another process"):
        Search(cluster, study, Program("train.py"), tmp_path / "s")
    first.close()
    with pytest.raises(Conflict, match="another file"):
        Search(cluster, a_study(seed=3), Program("train.py"), tmp_path / "s")
    with pytest.raises(UsageError, match="wants 3 workers"):
        lead(FakeCluster(tasks=2), a_study(workers=3), tmp_path / "w")


@pytest.mark.parametrize("scheduler", ["none", "asha", "hyperband", "pbt"])
def test_a_study_that_is_over_goes_on_with_more_trials(tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "train.py").write_text("")
    cluster, budget = FakeCluster(tasks=1), Budget("steps", 10, 30)
    first = lead(cluster, a_study(scheduler=scheduler, budget=budget, stop=Stop(patience=12)), tmp_path / "s")
    before = len(cluster.requests)
    more = lead(cluster, a_study(scheduler=scheduler, budget=budget, trials=20, at_once=1), tmp_path / "s")
    assert {leg.trial for leg in first.records.legs.values()} == set(range(12))
    assert {leg.trial for leg in more.records.legs.values()} == set(range(20))
    assert more.over == "all trials have run"
    assert {key: more.records.ended[key] for key in first.records.ended} == first.records.ended
    assert len(cluster.requests) - before == len(more.records.ended) - len(first.records.ended), "no leg ran twice"


def test_what_matters_is_said_of_enough_trials() -> None:
    study = a_study()
    rng = random.Random(1)
    scored = []
    for _ in range(40):
        lr, n = 10 ** rng.uniform(-4, 0), rng.randint(1, 9)
        scored.append(({"lr": lr, "n": n, "act": rng.choice(("relu", "tanh"))}, 0.01 * n - abs(math.log10(lr) + 2)))
    for some in (scored, scored[:12]):
        found = importance(study, some)
        assert set(found) == set(PARAMETERS) and max(found, key=lambda name: found[name]) == "lr"
    assert importance(study, scored[:9]) == {}


def test_what_came_of_it_is_shown_to_people_and_programs(tmp_path: Path) -> None:
    search = lead(FakeCluster(), a_study(scheduler="asha", budget=Budget("steps", 10, 90)), tmp_path / "s")
    found = report.document(search)
    assert json.loads(json.dumps(found))["best"]["budget"] == 90 and len(found["trials"]) == 12
    assert set(found["importance"]) == set(PARAMETERS)
    report.write(search, tmp_path / "s", "a <study>")
    page = (tmp_path / "s" / "study.html").read_text()
    assert "a &lt;study&gt;" in page and page.count("<svg") == 3 and "http" not in page
    lines = report.Live(search).lines()
    assert "12/12 trials" in lines[0] and len(lines) == 12


def test_the_dashboard_is_told_of_a_study_as_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PUBLISH_S", 0.0)
    monkeypatch.setattr(report, "PUBLISH_REST", 0)
    study = a_study(scheduler="asha", budget=Budget("steps", 10, 90))
    search = Search(FakeCluster(), study, Program("train.py"), tmp_path / "s")
    seen: list[dict[str, Any]] = []
    is_down = True

    def show(name: str, content: str) -> None:
        if is_down:
            raise NoSuchCluster("it is down")
        assert name == search.records.uid
        seen.append(json.loads(content))

    told = report.Published(search, show, "a <study>", tmp_path / "s")
    told.renew()
    is_down = False

    search.run(told.renew)
    told.renew(last=True)
    assert seen[0]["points"] == [] and 0 < seen[0]["begun"] < 12 and seen[0]["over"] == ""
    last = seen[-1]
    assert (last["begun"], last["trials"], last["failed"], last["goal"]) == (12, 12, 0, report.document(search)["goal"])
    assert last["over"] == search.over != ""
    assert [axis["name"] for axis in last["axes"]] == list(PARAMETERS)
    assert last["axes"][2] == {"name": "act", "values": ["relu", "tanh"]} and last["axes"][0]["log"]
    shown = {point["trial"]: point for point in last["points"]}
    best = report.document(search)["best"]
    assert shown[best["trial"]] | {"job": ""} == {
        **{k: best[k] for k in ("trial", "score", "settings", "budget")},
        "job": "",
    }
    assert shown[best["trial"]]["job"] == best["jobs"][0]
    search.close()


def test_event_files_are_what_tensorboard_reads(tmp_path: Path) -> None:
    from dtfctl.protocol.hparams_pb2 import HParamsPluginData
    from dtfctl.runtime.train.summary_io import summary_iterator

    search = lead(FakeCluster(), a_study(trials=5), tmp_path / "s")
    report.write(search, tmp_path / "s", "t")
    (file,) = (tmp_path / "s" / "events" / "trial-0").iterdir()
    events = list(summary_iterator(file))
    told = {value.tag: value for event in events for value in event.summary.value}
    start = HParamsPluginData.FromString(told["_hparams_/session_start_info"].metadata.plugin_data.content)
    settings = search.records.legs[0, 0].settings
    assert start.session_start_info.hparams["lr"].number_value == settings["lr"]
    assert start.session_start_info.hparams["act"].string_value == settings["act"]
    assert told["score"].simple_value == pytest.approx(search.records.ended[0, 0].score)
