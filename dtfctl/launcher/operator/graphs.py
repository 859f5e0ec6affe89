"""Show graphs: of jobs, by their tasks, and of files; in a process of its own (`python -m dtfctl.show_graph`)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dtfctl.launcher.errors import Conflict, InternalError, NoSuchJob, UsageError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.model import ClusterStatus, JobStatus
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.profiling import target_of, tls_of
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.values import field, replace, value

Form: TypeAlias = Literal["tree", "dot", "nodes", "picture"]


@value
class GraphView:
    """What is to be shown of a graph."""

    stage: str = "all"
    """The stage's name; `all`: each of them."""
    form: Form = "tree"
    """`picture`: no stages, but what of it takes a picture and gives scores, as a graph that can be asked."""
    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    """The step; with neither `fetches` nor `run`: of a job the one that needs most, of a file all that it does."""
    run: tuple[str, ...] = ()
    depth: int | None = None
    """How many name scopes are open; None: as many as fit."""
    scope: str = ""
    tasks: Mapping[str, int] = field(default_factory=dict)
    """Says how many tasks there are by role, for a file; empty: those that it names."""


def of_job(paths: ClusterPaths, status: ClusterStatus, job: str, view: GraphView) -> dict[str, Any]:
    """Show what a job's steps are made of, as its tasks have it; of one that has ended, the graph that it has saved.

    Args:
        job: its id; "": whichever there is.

    Raises:
        NoSuchJob: there is none.
        Conflict: no task has its graph: it has not begun, has ended and saved none, or is of another framework.
    """
    chosen = next((known for known in status.jobs if known.id == job), None)
    if job and chosen is None:
        raise NoSuchJob(f"there is no job {job}", "look with: dtfctl jobs")
    if chosen is not None and chosen.framework != "dtf":
        raise Conflict(
            f"{job} runs {chosen.framework}, whose graph no task has", "only jobs with `framework: dtf` have one"
        )
    if chosen is not None and chosen.state == "queued":
        raise Conflict(f"{job} waits in the queue, so no task has its graph yet", f"look with: dtfctl why {job}")
    if chosen is not None and chosen.is_final and view.form != "picture":
        return _of_ended(chosen, status, view)
    own = frozenset(chosen.tasks) if chosen is not None else frozenset()
    tasks = [task for task in status.tasks if task.state == "running" and task.address]
    tasks = [task for task in tasks if task.name in own] or tasks
    # Who leads steps is hardly ever a ps.
    tasks.sort(key=lambda task: (task.job == "ps", task.job, task.index))
    if not tasks:
        raise Conflict("no task of the cluster runs", "look with: dtfctl status")
    controller = controller_client.controller_of(paths)
    try:
        targets = [target_of(paths, task, controller.reach(task.address)) for task in tasks]
        said = _asked({"file": "", "targets": targets, "tls": tls_of(paths), "job": job}, view, ops_of(paths))
    finally:
        controller.close()
    if "error" in said:
        hint = said.get("hint", "is the job running? look with: dtfctl jobs")
        raise Conflict(f"there is no graph to show: {said['error']}", hint)
    return _checked(said, view)


def _of_ended(job: JobStatus, status: ClusterStatus, view: GraphView) -> dict[str, Any]:
    folder = Path(job.checkpoint_dir)
    metas = sorted(folder.glob("*.meta"), key=lambda file: file.stat().st_mtime) if job.checkpoint_dir else []
    saved = next((file for file in (*reversed(metas), folder / "graph.pbtxt") if file.is_file()), None)
    if saved is None:
        where = f" in {folder} of this machine" if job.checkpoint_dir else ""
        raise Conflict(
            f"{job.id} has ended ({job.state}), and its tasks have let go of its graph; it has saved none{where}",
            "ask while it runs, or have it save one (tf.train.Saver, MonitoredTrainingSession) in DTF_CHECKPOINT_DIR",
        )
    found = of_file(saved, replace(view, tasks=view.tasks or Counter(task.job for task in status.tasks)))
    return {**found, "graph": f"{job.id}, which has ended, as saved in {saved}"}


def of_file(path: Path, view: GraphView) -> dict[str, Any]:
    """Show the graph of a file. Raises UsageError: it is none, or cannot be compiled like this."""
    said = _asked({"file": str(path), "targets": [], "tls": None, "job": ""}, view)
    if "error" in said:
        raise UsageError(f"there is no graph to show: {said['error']}", said.get("hint", ""))
    return _checked(said, view)


def ops_of(paths: ClusterPaths) -> dict[str, str]:
    """Give what of the environment of a cluster's tasks says where ops of its own are, as far as these are here.

    A pattern of theirs (`tf.register_fused`) is replaced in graphs by whoever knows it.
    """
    if not paths.spec.exists():
        return {}
    env = codec.decode(ClusterSpec, paths.spec.read_bytes()).env
    folders = [*filter(os.path.isabs, map(os.path.expanduser, env.get("PYTHONPATH", "").split(os.pathsep)))]
    searched = [*folders, *filter(None, sys.path)]
    named = [module.strip() for module in env.get("DTF_OPS", "").split(",")]
    # Of hosts that are other machines they may be there alone.
    here = [module for module in named if module and PathFinder.find_spec(module.partition(".")[0], searched)]
    if not here:
        return {}
    known = [*folders, os.environ.get("PYTHONPATH", "")]
    return {"DTF_OPS": ",".join(here), "PYTHONPATH": os.pathsep.join(filter(None, known))}


def _asked(source: Mapping[str, Any], view: GraphView, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    asked = {
        **source,
        "stage": view.stage,
        "format": view.form,
        "feeds": view.feeds,
        "fetches": view.fetches,
        "run": view.run,
        "depth": view.depth,
        "scope": view.scope,
        "tasks": dict(view.tasks),
    }
    # In a group of its own: a terminal's Ctrl-C is for this process, which ends that one.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dtfctl.show_graph"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, **(env or {})},
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        # It ends when its input does: with this process, however that ends.
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        out = process.stdout.read()
    except BrokenPipeError:
        out = ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        said: dict[str, Any] = json.loads(out)
    except ValueError:
        raise InternalError(f"the process that shows a graph ended with {process.returncode}") from None
    return said


def _checked(said: dict[str, Any], view: GraphView) -> dict[str, Any]:
    stages: Sequence[str] = said["stages"]
    if view.stage != "all" and view.stage not in stages:
        raise UsageError(f"`{view.stage}` is no stage of it", f"one of: all, {', '.join(stages)}")
    return said
