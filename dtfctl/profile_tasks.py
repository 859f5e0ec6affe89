"""python -m dtfctl.profile_tasks: record a timeline over tasks, write it to a file, and sum it up.

Started by `launcher.operator.profiling`. It reads what to do from the first line of its input, as JSON, stops when
there is no more input, and says {"steps": {...}} now and then, in the end {"summary": {...}} or {"error": TEXT}, one
line each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from dtfctl import guard
from dtfctl.net.tls import Identity
from dtfctl.runtime.profiler.capture import Target, capture
from dtfctl.runtime.profiler.chrome import write_chrome
from dtfctl.runtime.profiler.findings import TaskLinkFacts
from dtfctl.runtime.profiler.perfetto import write_perfetto
from dtfctl.runtime.profiler.summary import summarize
from dtfctl.runtime.profiler.xplane import write_xplane


def main() -> int:
    # Tasks are told to stop, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    guard.once(_end_with_parent, name="parent").start()
    targets = [Target(**target) for target in asked["targets"]]
    identity = Identity(*(Path(path) for path in asked["tls"])) if asked["tls"] else None
    records = capture(targets, identity, asked["steps"], asked["seconds"], asked["job"], lambda n: _say(steps=n))
    if not any(record.steps for record in records):
        _say(error=next((record.problem for record in records if record.problem), "no task has run a step"))
        return 1
    path = Path(asked["file"])
    try:
        if asked["format"] == "xplane":
            write_xplane(records, path, time.strftime("%Y_%m_%d_%H_%M_%S"))
        elif asked["format"] == "chrome":
            with path.open("w") as text:
                write_chrome(records, text)
        else:
            with path.open("wb") as binary:
                write_perfetto(records, binary)
    except OSError as error:
        _say(error=f"{path}: {error.strerror}")
        return 1
    links = {(link.pop("from"), link.pop("to")): TaskLinkFacts(**link) for link in asked["links"]}
    _say(summary=summarize(records, links))
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _say(**content: Any) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    code = main()
    # Connections that do not end must not keep the process.
    os._exit(code)
