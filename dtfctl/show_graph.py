"""python -m dtfctl.show_graph: compile a graph and tell what each stage makes of it.

Started by `launcher.operator.graphs`. It reads what to do from the first line of its input, as JSON, ends when there
is no more input, and says {"overview": ...} and more of it, or {"error": TEXT, "hint": TEXT}, in one line.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.net.tls import Identity
from dtfctl.runtime.framework.errors import NotFoundError, OpError
from dtfctl.runtime.inspect.dot import dot
from dtfctl.runtime.inspect.pictures import find_picture_model
from dtfctl.runtime.inspect.sources import Source, Step, from_cluster, from_file
from dtfctl.runtime.inspect.stages import Stage, short, transfers
from dtfctl.runtime.inspect.text import overview, tree
from dtfctl.runtime.profiler.capture import Target


def main() -> int:
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    guard.once(_end_with_parent, name="parent").start()
    try:
        said = _show(asked)
    except _Unknown as e:
        said = {
            "error": e.message,
            "hint": "see all names with: dtfctl graph, without --fetch, --run and --feed",
        }
    except OpError as e:
        said = {"error": e.message}
    except OSError as e:
        said = {"error": f"{asked['file']}: {e.strerror}"}
    print(json.dumps(said), flush=True)
    return "error" in said


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _show(asked: dict[str, Any]) -> dict[str, Any]:
    source = _source(asked)
    if asked["format"] == "picture":
        return {"graph": source.name, "stages": [], "picture": _picture(source)}
    step = _step(source, asked)
    _check_names(source, step)
    found = source.stages(step)
    said: dict[str, Any] = {
        "graph": source.name,
        "step": str(step),
        "note": _note(asked),
        "steps": [str(known) for known in source.steps],
        "overview": overview(found),
        "stages": [stage.name for stage in found],
    }
    wanted = [stage for stage in found if asked["stage"] in ("all", stage.name)]
    depth, scope = asked["depth"], asked["scope"]
    if asked["format"] == "tree":
        said["trees"] = {stage.name: tree(stage, depth, scope) for stage in wanted}
    elif asked["format"] == "dot":
        said["dots"] = {s.name: dot(s, f"{source.name}: {s.name} ({s.why})", depth, scope) for s in wanted}
    else:
        said["nodes"] = {stage.name: _nodes(stage) for stage in wanted}
        said["transfers"] = {stage.name: _transfers(stage) for stage in wanted}
    return said


def _source(asked: dict[str, Any]) -> Source:
    if asked["file"]:
        return from_file(Path(asked["file"]), asked["tasks"])
    identity = Identity(*(Path(path) for path in asked["tls"])) if asked["tls"] else None
    return from_cluster([Target(**target) for target in asked["targets"]], identity, asked["job"])


def _step(source: Source, asked: dict[str, Any]) -> Step:
    if asked["fetches"] or asked["run"]:
        fetches = [_tensor(name) for name in asked["fetches"]]
        return Step(tuple(map(_tensor, asked["feeds"])), tuple(fetches), tuple(asked["run"]))
    chosen = source.longest()
    return chosen if not asked["feeds"] else Step(tuple(map(_tensor, asked["feeds"])), (), chosen.targets)


def _note(asked: dict[str, Any]) -> str:
    if asked["file"] and not asked["fetches"] and not asked["run"]:
        return "a step that does all of it; name one with --fetch and --run to see what it needs and what is pruned"
    return ""


class _Unknown(NotFoundError):
    """A step that names what the graph does not have."""


def _check_names(source: Source, step: Step) -> None:
    known = {node.name for node in source.graph.node}
    for said in (*step.feeds, *step.fetches, *step.targets):
        name = said.partition(":")[0]
        if name not in known:
            close = difflib.get_close_matches(name, known, 3, 0.5)
            raise _Unknown(f"it has no node {name}" + (f"; there is {', '.join(close)}" if close else ""))


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _picture(source: Source) -> dict[str, Any]:
    found = find_picture_model(source)
    return {
        "graph": base64.b64encode(found.graph.SerializeToString()).decode(),
        "input": found.input,
        "shape": found.shape,
        "output": found.output,
        "task": short(source.master),
        "tasks": found.tasks,
    }


def _nodes(stage: Stage) -> list[dict[str, Any]]:
    return [
        {
            "name": node.name,
            "op": node.op,
            "task": node.task,
            "device": node.device,
            "inputs": node.inputs,
            "controls": node.controls,
            "types": node.types,
            "other": node.other,
        }
        for node in stage.nodes.values()
    ]


def _transfers(stage: Stage) -> Sequence[dict[str, str]]:
    return [
        {"from": p.source, "to": p.target, "tensor": p.tensor, "types": p.types, "send": p.send, "receive": p.receive}
        for p in transfers(stage)
    ]


if __name__ == "__main__":
    code = main()
    # Connections that do not end must not keep the process.
    os._exit(code)
