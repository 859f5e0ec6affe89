"""Run TensorFlow's own tests with a server of ours behind their sessions, and say where stock TensorFlow does better.

    python -m tests.interop.tf_own_tests --source DIR --judge PYTHON [--out DIR] [files or folders]
    python -m tests.interop.tf_own_tests --out DIR --table

DIR is a checkout of TensorFlow at the version of PYTHON's `tensorflow` (2.21.0); nothing of it is kept here. Every
file runs under the stock front end in a process of its own; sessions that name no target get one of ours, in a process
of its own too. A test that fails so runs again, with a stock server in the place of ours: at par is one that passes
here, or fails there too. Only tests that ran a step in a session are judged; what runs eagerly never reaches a server.
OUT/results holds a JSON file a test file, {"found", "end", "tests": {id: {"ours", "stock", "steps", "why"}}}, OUT/logs
what they wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.interop.tf_own_tests_table import FOLDERS, Results, counts, is_judged, read_results, reasons, table, unjudged

SERVER = """
import sys
from dtfctl.runtime.train.server_lib import Server
server = Server.create_local_server()
print(server.target, flush=True)
sys.stdin.read()
"""


class Lane:
    """One server of ours and one process that has imported TensorFlow, which serve one file after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.server: subprocess.Popen[str] | None = None
        self.runner: subprocess.Popen[str] | None = None
        self.target = ""

    def _serve(self) -> str:
        if self.server is None or self.server.poll() is not None:
            self.server = subprocess.Popen(
                [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert self.server.stdout is not None
            self.target = self.server.stdout.readline().strip()
        return self.target

    def run(self, file: str, ours: bool, tests: list[str] | None) -> Results:
        """Run a file (or these tests of it) and return {"found", "end", "tests": {id: record}}."""
        options = self.options
        if self.runner is None or self.runner.poll() is not None:
            self.runner = subprocess.Popen(
                [options.judge, str(Path(__file__).with_name("tf_own_tests_child.py")), options.source],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "TEST_SRCDIR": str(options.out / "srcdir"),
                    "TEST_TMPDIR": str(options.out / "tmp") + "/",
                    "OMP_NUM_THREADS": "2",
                },
            )
        side = "ours" if ours else "stock"
        records = options.out / "records" / f"{key(file)}.{side}"
        records.unlink(missing_ok=True)
        request = {
            "file": str(Path(options.source) / "tensorflow/python" / file),
            "target": self._serve() if ours else self._stock_target(),
            "records": str(records),
            "log": str(options.out / "logs" / f"{key(file)}.{side}"),
            "tests": tests,
            "most": options.most,
            "seed": options.seed,
            "seconds": options.seconds,
            "megabytes": options.megabytes,
        }
        end = self._ask(request)["end"]
        got = read_records(records)
        got["end"] = end
        if ours:
            assert self.server is not None
            if self.server.poll() is not None:
                got["end"] = f"the server died ({self.server.returncode})"
            elif got["end"] != "done":  # what a killed test left running there is not the next one's
                self.stop_server()
        return got

    def _stock_target(self) -> str:
        """Ask the runner for a server of stock TensorFlow; it starts one if there is none any more."""
        return str(self._ask({"serve": True})["target"])

    def _ask(self, request: Results) -> Results:
        assert self.runner is not None and self.runner.stdin is not None and self.runner.stdout is not None
        self.runner.stdin.write(json.dumps(request) + "\n")
        self.runner.stdin.flush()
        answer = self.runner.stdout.readline()
        return json.loads(answer) if answer else {"end": "the runner died"}

    def stop_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def close(self) -> None:
        self.stop_server()
        if self.runner is not None:
            self.runner.kill()
            self.runner.wait()


def key(file: str) -> str:
    return file.removesuffix(".py").replace("/", "__")


def read_records(path: Path) -> Results:
    got: Results = {"found": 0, "tests": {}}
    started = ""
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        if "found" in record:
            got["found"] = record["found"]
        elif "start" in record:
            started = record["start"]
        elif "test" in record:
            got["tests"][record.pop("test")] = record
            started = ""
    if started:
        got["tests"][started] = {"end": "killed", "steps": 1, "why": "killed while it ran"}
    return got


def judge(lane: Lane, file: str) -> Results:
    """Run a file here, and there what failed here."""
    first = lane.run(file, ours=True, tests=lane.options.tests)
    result: Results = {"found": first["found"], "end": first["end"], "tests": {}}
    merge(lane, file, result, first["tests"])
    return result


def judge_again(lane: Lane, file: str, path: Path) -> Results:
    """Run only what failed here and passes there, and put it in the place of what was."""
    result: Results = json.loads(path.read_text())
    failed = [name for name, record in result["tests"].items() if record["ours"] != "pass" and is_judged(record)]
    if failed:
        found = lane.run(file, ours=True, tests=failed)["tests"]
        nothing = {"end": "not run", "steps": 0}
        merge(lane, file, result, {name: found.get(name, nothing) for name in failed})
    return result


def merge(lane: Lane, file: str, result: Results, ours: Results) -> None:
    """Put records of ours into a result, with what stock TensorFlow does in the tests that fail."""
    failed = [name for name, record in ours.items() if record["end"] not in ("pass", "skip")]
    stock = lane.run(file, ours=False, tests=failed)["tests"] if failed else {}
    for name, record in ours.items():
        mine: Results = {"ours": record["end"], "steps": record["steps"], "seconds": record.get("seconds", 0)}
        if name in failed:
            other = stock.get(name, {"end": "not run", "steps": 0})
            mine.update(stock=other["end"], why=record.get("why", ""))
            mine["steps"] = max(mine["steps"], other["steps"])
        result["tests"][name] = mine


def files_of(options: argparse.Namespace) -> list[str]:
    base = Path(options.source) / "tensorflow/python"
    found: list[str] = []
    for name in options.files or FOLDERS:
        place = base / name
        found += [str(p.relative_to(base)) for p in sorted(place.rglob("*_test.py"))] if place.is_dir() else [name]
    return list(dict.fromkeys(found))


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("files", nargs="*", help="under tensorflow/python; default: all of " + ", ".join(FOLDERS))
    ap.add_argument("--source", default="", help="a checkout of TensorFlow")
    ap.add_argument("--judge", default=os.environ.get("DTF_TEST_TENSORFLOW", ""), help="the Python with TensorFlow")
    ap.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "tf-own-tests")
    ap.add_argument("--most", type=int, default=0, help="tests of a file, drawn at random; 0: all")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=300.0, help="a file may take")
    ap.add_argument("--megabytes", type=int, default=4000, help="a file's process may hold")
    ap.add_argument("--lanes", type=int, default=2)
    ap.add_argument("--tests", nargs="*", default=None, help="ids, Class.test")
    ap.add_argument("--again", action="store_true", help="also files that have results; only the failed tests of these")
    ap.add_argument("--table", action="store_true", help="print what --out holds and run nothing")
    options = ap.parse_args()
    for folder in ("results", "records", "logs", "tmp", "srcdir/org_tensorflow"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    if options.table:
        results = read_results(options.out)
        print("\n".join([*table(results), "", *reasons(results), "", *unjudged(results)]))
        return 0
    link = options.out / "srcdir/org_tensorflow/tensorflow"
    if not link.exists():
        link.symlink_to(Path(options.source).resolve() / "tensorflow")
    work: queue.SimpleQueue[str] = queue.SimpleQueue()
    todo = files_of(options)
    for file in todo:
        if options.again or not (options.out / "results" / f"{key(file)}.json").exists():
            work.put(file)

    def work_off() -> None:
        lane = Lane(options)
        try:
            while True:
                try:
                    file = work.get_nowait()
                except queue.Empty:
                    return
                began = time.monotonic()
                path = options.out / "results" / f"{key(file)}.json"
                result = judge_again(lane, file, path) if options.again and path.exists() else judge(lane, file)
                path.write_text(json.dumps(result, indent=1))
                _, _, tests, passed = counts({file: result})
                took = time.monotonic() - began
                print(f"{file:70s} {passed:5d} of {tests:5d} {result['end']:8s} {took:5.0f} s", flush=True)
        finally:
            lane.close()

    threads = [threading.Thread(target=work_off) for _ in range(options.lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
