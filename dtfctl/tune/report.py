"""What a study shows: a table that lives, a document for programs, a page, and event files for TensorBoard."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dtfctl.durable import whole_file
from dtfctl.launcher.errors import LauncherError
from dtfctl.tune.events import write_trial
from dtfctl.tune.plots import Point, page
from dtfctl.tune.records import Ended
from dtfctl.tune.sampling import importance
from dtfctl.tune.search import Search
from dtfctl.tune.space import Choices, Setting

PAGE = "study.html"
SHOWN = 10
PUBLISH_S = 2.0
"""What the dashboard shows is written anew at most so often..."""
PUBLISH_REST = 10
"""... and after a rest of so many times what it took."""


def points(search: Search) -> list[Point]:
    """List trials that have a score, each at the longest budget that it ran for."""
    newest: dict[int, Ended] = {}
    for key, ended in sorted(search.records.ended.items()):
        if ended.score is not None:
            newest[key[0]] = ended
    legs = search.records.legs
    return [
        Point(trial, legs[e.key].settings, e.score or 0.0, legs[e.key].budget) for trial, e in sorted(newest.items())
    ]


def document(search: Search) -> dict[str, Any]:
    """Describe a study for programs."""
    records = search.records
    trials = []
    for trial, legs in itertools.groupby(sorted(records.legs.values(), key=lambda leg: leg.key), lambda leg: leg.trial):
        parts = []
        for leg in legs:
            ended = records.ended.get(leg.key)
            part: dict[str, Any] = {"settings": dict(leg.settings), "budget": leg.budget, "jobs": search.ids(leg)}
            if leg.after is not None:
                part["after"] = list(leg.after)
            if ended is not None:
                part |= {"score": ended.score, "scores": list(ended.scores), "seconds": round(ended.seconds, 3)}
                part |= {"metrics": dict(ended.metrics)} | ({"reason": ended.reason} if ended.reason else {})
            parts.append(part)
        scored = [part for part in parts if part.get("score") is not None]
        trials.append({"trial": trial, "score": scored[-1]["score"] if scored else None, "legs": parts})
    best = search.best
    found: dict[str, Any] = {
        "metric": search.study.metric,
        "goal": "max" if search.study.maximize else "min",
        "over": search.over,
        "best": None,
        "trials": trials,
        "importance": dict(_importance(search)),
    }
    if best is not None:
        leg = records.legs[best.key]
        found["best"] = {
            "trial": leg.trial,
            "score": best.score,
            "settings": dict(leg.settings),
            "budget": leg.budget,
            "jobs": search.ids(leg),
        }
    return found


def _importance(search: Search) -> Mapping[str, float]:
    if search.study.sampler == "grid":
        return {}
    return importance(search.study, [(point.settings, point.score) for point in points(search)])


def write(search: Search, folder: Path, title: str) -> None:
    """Write the page, and an event file for each trial."""
    found = points(search)
    with whole_file(folder / PAGE, 0o644) as out:
        out.write(page(search.study, title, found, _importance(search)).encode())
    for point in found:
        ends = [e for key, e in search.records.ended.items() if key[0] == point.trial and e.score is not None]
        write_trial(folder / "events", search.study, point, ends, search.records.legs)


def shown(search: Search, title: str, folder: Path) -> str:
    """Describe a study for the dashboard (`dashboard.studies`)."""
    records, study = search.records, search.study
    axes: list[dict[str, Any]] = []
    for name, parameter in study.parameters.items():
        if isinstance(parameter, Choices):
            axes.append({"name": name, "values": list(parameter.values)})
        else:
            axes.append({"name": name, "low": parameter.low, "high": parameter.high, "log": parameter.log})
    newest = {leg.trial: leg for leg in sorted(records.legs.values(), key=lambda leg: leg.key)}
    found = {
        "title": title,
        "folder": str(folder.absolute()),
        "metric": study.metric,
        "goal": "max" if study.maximize else "min",
        "budgeted": study.budget is not None,
        "trials": study.trials,
        "begun": len(newest),
        "failed": sum(ended.score is None for ended in records.ended.values()),
        "over": search.over,
        "axes": axes,
        "points": [
            {
                "trial": point.trial,
                "settings": dict(point.settings),
                "score": point.score,
                "budget": point.budget,
                "job": search.ids(newest[point.trial])[0],
            }
            for point in points(search)
        ],
        "importance": dict(_importance(search)),
    }
    return json.dumps(found)


class Published:
    """What the dashboard knows of a study, told anew as trials begin and end.

    Args:
        show: is given the study's name and what is shown of it. Raises LauncherError.
    """

    def __init__(self, search: Search, show: Callable[[str, str], None], title: str, place: Path) -> None:
        self._search = search
        self._show = show
        self._title = title
        self._place = place
        self._told = 0
        self._next = 0.0

    def renew(self, *, last: bool = False) -> None:
        """Tell what has changed, if that was not done just now; `last`: in any case."""
        begun, count = time.monotonic(), len(self._search.records.order)
        if not last and (count == self._told or begun < self._next):
            return
        # A study does not end because it cannot be looked at.
        with contextlib.suppress(LauncherError):
            self._show(self._search.records.uid, shown(self._search, self._title, self._place))
        took = time.monotonic() - begun
        self._told, self._next = count, begun + max(PUBLISH_S, PUBLISH_REST * took)


class Live:
    """The lines that a terminal shows while a study runs."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._began = time.monotonic()

    def lines(self) -> list[str]:
        """List what runs, what was best, and how far it is."""
        search, study = self._search, self._search.study
        found = sorted(
            points(search), key=lambda p: ((p.budget or 0), p.score * (1 if study.maximize else -1)), reverse=True
        )
        names = list(study.parameters)
        head = ["trial", *names, *(["budget"] if study.budget else []), study.metric, "state"]
        rows = [head]
        for running in search.running:
            job = running.jobs[0] if running.jobs else None
            told = job.progress.metrics.get(study.metric) if job is not None and job.progress is not None else None
            state = job.state if job is not None else "submitted"
            rows.append(self._row(running.leg.trial, running.leg.settings, running.leg.budget, told, state))
        for point in found[:SHOWN]:
            rows.append(self._row(point.trial, point.settings, point.budget, point.score, "done"))
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
        return [self.summary(), *lines]

    def _row(
        self, trial: int, settings: Mapping[str, Setting], budget: int | None, score: float | None, state: str
    ) -> list[str]:
        cells = [f"{one:.4g}" if isinstance(one, float) else str(one) for one in settings.values()]
        budgets = [str(budget)] if self._search.study.budget else []
        return [str(trial), *cells, *budgets, "-" if score is None else f"{score:.5g}", state]

    def summary(self) -> str:
        """Say how far it is, in a line."""
        search = self._search
        records, best = search.records, search.best
        begun = len({key[0] for key in records.legs})
        failed = sum(e.score is None for e in records.ended.values())
        parts = [
            f"{begun}/{search.study.trials} trials",
            f"{len(records.ended)} jobs done",
            f"{len(search.running)} running",
        ]
        if failed:
            parts.append(f"{failed} failed")
        if best is not None and best.score is not None:
            parts.append(f"best {search.study.metric} {best.score:.5g} (trial {best.key[0]})")
        return ", ".join(parts) + f", {time.monotonic() - self._began:.0f} s"
