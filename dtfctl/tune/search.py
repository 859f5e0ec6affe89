"""A study led to its end: legs submitted as jobs, their scores read, the next ones decided."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from dtfctl.launcher.errors import ClusterFailed, ControllerUnreachable, UsageError
from dtfctl.launcher.model import ClusterStatus, JobRequest, JobStatus
from dtfctl.tune.records import Ended, Records
from dtfctl.tune.sampling import Sampler
from dtfctl.tune.schedule import Leg, next_leg
from dtfctl.tune.space import Study
from dtfctl.values import value

WAIT_S = 2.0
AGAIN_S = 1.0
MOST_FAILURES = 5
"""Trials that may fail, at the beginning, before a first one has a score."""
MOST_AGAIN = 3
"""How often a leg is run anew whose score was lost with its host."""
CLIENT_JOBS = ("chief", "worker", "evaluator")
_COPYING = '''"""{name}, which begins with the checkpoints of another job."""
import os, shutil
source, mine = os.environ.get("DTF_TRIAL_FROM"), os.environ["DTF_CHECKPOINT_DIR"]
if source and os.environ.get("DTF_IS_CHIEF") == "1" and not os.path.exists(mark := os.path.join(mine, ".copied")):
    shutil.copytree(source, mine, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".dtfctl", ".copied"))
    open(mark, "w").close()
__file__ = {path!r}
exec(compile({source!r}, {path!r}, "exec"))
'''


class Trials(Protocol):
    """What this needs of `dtfctl.launcher.api.Cluster`."""

    @property
    def name(self) -> str: ...
    def submit(self, request: JobRequest) -> str: ...
    def newer_jobs(self, ids: tuple[str, ...], version: int, wait_s: float) -> tuple[list[JobStatus], int]: ...
    def cancel(self, job_ids: list[str], *, grace_s: float) -> list[JobStatus]: ...
    def status(self) -> ClusterStatus: ...


@value
class Program:
    """What is run as a trial."""

    script: str
    args: tuple[str, ...] = ()
    name: str = ""


@value
class Running:
    """A leg that runs, for who watches."""

    leg: Leg
    jobs: tuple[JobStatus, ...]


class Search:
    """Leads a study until it is over, or `stop` was called.

    Attributes:
        records: what was begun and ended.
        running: the legs that run now.
        over: why it ended; "" before.
    """

    def __init__(self, cluster: Trials, study: Study, program: Program, folder: Path) -> None:
        """Read what there is of the study, and have the sampler know it.

        Raises:
            LauncherError: it cannot be begun, or not gone on with.
        """
        self.study = study
        self._cluster = cluster
        self._program = program
        self._folder = folder
        self.records = Records(folder, study, f"{os.path.abspath(program.script)} {program.args!r}")
        self._began = time.monotonic()
        self._jobs: dict[str, JobStatus | None] = {}
        self._version = 0
        self.over = ""
        self._stopped = False
        self._full = study.budget.most if study.budget else None
        self._sampler = Sampler(study)
        self._script = program.script
        if study.scheduler == "pbt":
            self._script = self._copying_script()
        self._replay()

    @property
    def running(self) -> list[Running]:
        return [
            Running(leg, tuple(job for job in map(self._jobs.get, self.ids(leg)) if job is not None))
            for key, leg in self.records.legs.items()
            if key not in self.records.ended
        ]

    @property
    def best(self) -> Ended | None:
        """Find the best leg: of those that ran for the whole budget, or the longest that any did."""
        scored = [one for one in self.records.ended.values() if one.score is not None]
        if not scored:
            return None
        longest = max(self.records.legs[one.key].budget or 0 for one in scored)
        sign = 1 if self.study.maximize else -1
        full = [one for one in scored if (self.records.legs[one.key].budget or 0) == longest]
        return max(full, key=lambda one: (sign * (one.score or 0.0), -one.key[0]))

    def ids(self, leg: Leg) -> list[str]:
        """Name the jobs of a leg, one an execution: the same, however often it is submitted, until given up."""
        name = f"{self._program.name or 'trial'}-{self.records.uid}-t{leg.trial}-{leg.number}"
        if self.records.attempt(leg):
            name += f"-again{self.records.attempt(leg)}"
        if self.study.executions == 1:
            return [name]
        return [f"{name}-{execution}" for execution in range(self.study.executions)]

    def run(self, tell: Callable[[], None] = lambda: None) -> None:
        """Lead it to its end; `tell` is called after each change.

        Raises:
            ClusterFailed: trials do nothing but fail. LauncherError: the cluster does not take jobs any more.
        """
        slots = self._slots()
        for key, leg in self.records.legs.items():
            if key not in self.records.ended:
                self._submit(leg)
        while not self._stopped:
            self._fill(slots)
            tell()
            if not self._jobs:
                break
            self._wait()
        self.over = self.over or "stopped"
        tell()
        if self.records.ended and self.best is None and not self._stopped:
            raise self._without_scores("all trials")

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    def cancel_running(self) -> None:
        """Cancel what runs; a study that is gone on with runs these legs again, by other jobs."""
        left = list(self._jobs)
        # Noted first: who does not wait for the end of this must not find that they failed.
        for one in self.running:
            self.records.again(one.leg)
        self._jobs.clear()
        if left:
            self._cluster.cancel(left, grace_s=5.0)

    def close(self) -> None:
        self.records.close()

    # ------------------------------------------------------------------ what was

    def _replay(self) -> None:
        """Ask and tell the sampler all that was asked and told, in its order."""
        for what, key in self.records.order:
            leg = self.records.legs[key]
            if what == "begin" and leg.number == 0:
                asked = self._sampler.ask(leg.trial)
                if asked is None or dict(asked) != dict(leg.settings):
                    raise UsageError(
                        f"the study in {self._folder} cannot be gone on with: its sampler gives other settings for "
                        f"trial {leg.trial} than it did",
                        "was another version of optuna installed when it began? Begin anew with another --folder.",
                    )
            elif what == "end":
                self._tell_sampler(leg, self.records.ended[key].score)

    def _tell_sampler(self, leg: Leg, score: float | None) -> None:
        if self.study.scheduler != "pbt" or leg.number == 0:
            last = leg.budget == self._full or self.study.scheduler == "pbt"
            self._sampler.tell(leg.trial, leg.settings, leg.budget, score, last)

    # ------------------------------------------------------------------ what is next

    def _slots(self) -> int:
        """Count how many jobs can run side by side."""
        status = self._cluster.status()
        if self.study.scheduler == "pbt" and len(status.hosts) > 1:
            raise UsageError(
                "`pbt` copies checkpoints from trial to trial, which is done on one host only",
                "choose `asha` or `hyperband`, whose trials go on from their own",
            )
        tasks = sum(task.name.partition("/")[0] in CLIENT_JOBS for task in status.tasks)
        room = tasks // self.study.workers
        if room < 1:
            raise UsageError(
                f"a trial wants {self.study.workers} workers; {self._cluster.name} has {tasks}",
                "scale the cluster, or lower `workers`",
            )
        return min(room, self.study.at_once or room)

    def _fill(self, slots: int) -> None:
        """Begin legs while there is room."""
        while not self.over and len(self._jobs) < slots:
            reason = self._reason_to_end()
            if reason:
                self.over = reason
                return
            begun = len({leg.trial for leg in self.records.legs.values()})
            leg = next_leg(self.study, self.records.past, lambda number=begun: self._sampler.ask(number))  # type: ignore[misc]
            if leg is None:
                if not self._jobs:
                    self.over = "all trials have run"
                return
            self.records.begin(leg)
            self._submit(leg)

    def _reason_to_end(self) -> str:
        stop, best = self.study.stop, self.best
        if stop.seconds is not None and time.monotonic() - self._began > stop.seconds:
            return f"{stop.seconds:g} s are over"
        if best is None or best.score is None:
            return ""
        if stop.score is not None and not self.study.better(stop.score, best.score):
            return f"a score of {stop.score:g} is reached"
        if stop.patience is not None and self._no_better() >= stop.patience:
            return f"{stop.patience} trials were no better"
        return ""

    def _no_better(self) -> int:
        """Count the trials that ended since the best did, of those that ran for the whole budget: others may yet be."""
        ended = [one for key, one in self.records.ended.items() if self.records.legs[key].budget == self._full]
        best = self.best
        return len(ended) - 1 - ended.index(best) if best is not None and best in ended else 0

    def _submit(self, leg: Leg) -> None:
        settings = {name: leg.settings[name] for name in self.study.parameters}
        words = [word for name, setting in settings.items() for word in (f"--{name}", _text(setting))]
        if leg.budget is not None and self.study.budget is not None:
            words += [f"--{self.study.budget.argument}", str(leg.budget)]
        described = {"trial": leg.trial, "leg": leg.number, "settings": settings, "budget": leg.budget}
        before = None if leg.after is None else self.records.legs[leg.after]
        for execution, name in enumerate(self.ids(leg)):
            trial = {**described, "execution": execution, "seed": self.study.seed + execution}
            # What a job's own event files say of it, for TensorBoard.
            env = {"DTF_TRIAL": json.dumps(trial), "DTF_HPARAMS": json.dumps(settings)}
            resume = self.ids(before)[execution] if before is not None else None
            if self.study.scheduler == "pbt":
                env["PYTHONPATH"] = str(Path(self._program.script).absolute().parent)
                if resume is not None:
                    env["DTF_TRIAL_FROM"] = self._folder_of(resume)
                    resume = None
            request = JobRequest(
                script=self._script,
                args=(*self._program.args, *words),
                id=name,
                env=env,
                resume=resume,
                workers=self.study.workers,
                cpus=self.study.cpus,
                memory=self.study.memory,
                gpus=self.study.gpus,
                framework=self.study.framework,  # type: ignore[arg-type]
            )
            self._jobs[self._cluster.submit(request)] = None

    def _copying_script(self) -> str:
        source = Path(self._program.script).read_text("utf-8")
        name = Path(self._program.script).name
        path = self._folder / f"copies_{name}"
        path.write_text(_COPYING.format(name=name, path=name, source=source), "utf-8")
        return str(path)

    def _folder_of(self, job: str) -> str:
        found, _ = self._cluster.newer_jobs((job,), 0, 0.0)
        return found[0].checkpoint_dir

    # ------------------------------------------------------------------ what came of it

    def _wait(self) -> None:
        """Wait until a job has ended or told something."""
        try:
            found, self._version = self._cluster.newer_jobs(tuple(self._jobs), self._version, WAIT_S)
        except ControllerUnreachable:
            time.sleep(AGAIN_S)  # the next call starts it again
            return
        for job in found:
            self._jobs[job.id] = job
        for one in self.running:
            if len(one.jobs) == self.study.executions and all(job.is_final for job in one.jobs):
                self._end(one)

    def _lost_its_score(self, job: JobStatus) -> bool:
        """Tell whether a job had done its work when its host died with what it told, and found nothing left to do."""
        told = job.progress.metrics if job.progress is not None else {}
        return job.state == "succeeded" and job.restarts > 0 and self.study.metric not in told

    def _again(self, one: Running) -> None:
        for job in one.jobs:
            self._jobs.pop(job.id, None)
        self.records.again(one.leg)
        self._submit(one.leg)

    def _end(self, one: Running) -> None:
        if self._stopped:
            return
        if any(map(self._lost_its_score, one.jobs)) and self.records.attempt(one.leg) < MOST_AGAIN:
            self._again(one)
            return
        scores: list[float] = []
        reasons: list[str] = []
        metrics: Mapping[str, float] = {}
        for job in one.jobs:
            metrics = job.progress.metrics if job.progress is not None else {}
            told_score = metrics.get(self.study.metric, math.nan)
            if job.state != "succeeded":
                reasons.append(f"{job.id} {job.state}: {job.reason or f'exit code {job.exit_code}'}")
            elif not math.isfinite(told_score):
                told = ", ".join(sorted(metrics)) or "nothing"
                reasons.append(f"{job.id} told no finite `{self.study.metric}`: it told {told}")
            else:
                scores.append(told_score)
        score = None if reasons else sum(scores) / len(scores)
        started = min((job.started for job in one.jobs if job.started), default=0.0)
        ended = max((job.ended for job in one.jobs if job.ended), default=started)
        took = ended - started
        self.records.end(
            Ended(one.leg.key, score, tuple(scores), "; ".join(reasons), took, tuple(sorted(metrics.items())))
        )
        for job in one.jobs:
            self._jobs.pop(job.id, None)
        self._tell_sampler(one.leg, score)
        failed = [other for other in self.records.ended.values() if other.score is None]
        if len(failed) >= MOST_FAILURES and len(failed) == len(self.records.ended):
            self.cancel_running()
            raise self._without_scores(f"the first {len(failed)} trials")

    def _without_scores(self, whose: str) -> ClusterFailed:
        last = [*self.records.ended.values()][-1]
        job = self.ids(self.records.legs[last.key])[-1]
        return ClusterFailed(
            f"{whose} have no score: {last.reason}",
            f"look with: dtfctl logs {job}; a program tells its score as progress (docs/tuning.md)",
        )


def _text(setting: float | int | str | bool) -> str:
    return (
        str(setting).lower()
        if isinstance(setting, bool)
        else repr(setting)
        if isinstance(setting, float)
        else str(setting)
    )
