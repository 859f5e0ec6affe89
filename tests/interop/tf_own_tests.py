"""Run TensorFlow's own tests with a server of ours behind their sessions, and say where stock TensorFlow does better.

    python -m tests.interop.tf_own_tests --source DIR --judge PYTHON [--out DIR] [files or folders]
    python -m tests.interop.tf_own_tests --front ours --source DIR --judge PYTHON [--out DIR] [files or folders]
    python -m tests.interop.tf_own_tests --out DIR --table

DIR is a checkout of TensorFlow at the version of PYTHON's `tensorflow` (2.21.0); nothing of it is kept here. Every
file runs under the stock front end in a process of its own; sessions that name no target get one of ours, in a process
of its own too. A test that fails so runs again, with a stock server in the place of ours: at par is one that passes
here, or fails there too. Only tests that ran a step in a session are judged; what runs eagerly never reaches a server.
With `--front ours` what a file imports as TensorFlow is our front end with sessions of its own; judged are then
tests that stock TensorFlow passes with steps in sessions of its own. A file that does not start here fails them all.

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
from dtfctl.protocol import config_pb2
from dtfctl.runtime.train.server_lib import Server
server = Server.create_local_server(config_pb2.ConfigProto(device_count={"CPU": int(sys.argv[1])}))
print(server.target, flush=True)
sys.stdin.read()
"""


TASK = """
import json
import sys
from dtfctl.protocol import config_pb2
from dtfctl.runtime.train.server_lib import Server
cluster, job, index, config = sys.argv[1:]
config = config_pb2.ConfigProto.FromString(bytes.fromhex(config))
server = Server(json.loads(cluster), job_name=job, task_index=int(index), config=config)
print("ready", flush=True)
server.join()
"""


class Runner:
    """A process that has imported a front end and runs files in forks of itself; it starts anew when it has died."""

    def __init__(self, options: argparse.Namespace, python: str, script: str) -> None:
        self.options = options
        self.command = [python, str(Path(__file__).with_name(script)), options.source]
        self.process: subprocess.Popen[str] | None = None

    def run(self, file: str, side: str, tests: list[str] | None, target: str = "") -> Results:
        """Run a file (or these tests of it) and return {"found", "end", "tests": {id: record}}."""
        options = self.options
        records = options.out / "records" / f"{key(file)}.{side}"
        records.unlink(missing_ok=True)
        request = {
            "file": str(Path(options.source) / "tensorflow/python" / file),
            "target": target,
            "task": [sys.executable, "-c", TASK] if side == "ours" else [],
            "records": str(records),
            "log": str(log_of(options, file, side)),
            "tests": tests,
            "most": options.most,
            "seed": options.seed,
            "seconds": options.seconds,
            "megabytes": options.megabytes,
        }
        end = self.ask(request)["end"]
        got = read_records(records)
        got["end"] = end
        return got

    def ask(self, request: Results) -> Results:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "TEST_SRCDIR": str(self.options.out / "srcdir"),
                    "TEST_TMPDIR": str(self.options.out / "tmp") + "/",
                    "OMP_NUM_THREADS": "2",
                    "DTF_TEST_ABSL": self.options.absl,
                    "PYTHONPATH": str(Path(__file__).parents[2]),
                },
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"end": "the runner died"}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class ServerLane:
    """One server of ours and one process that has imported TensorFlow, which serve one file after the other."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.runner = Runner(options, options.judge, "tf_own_tests_child.py")
        self.options = options
        self.server: subprocess.Popen[str] | None = None
        self.target = ""

    def judge(self, file: str) -> Results:
        """Run a file here, and there what failed here."""
        first = self._run(file, self.options.tests)
        result: Results = {"found": first["found"], "end": first["end"], "tests": {}}
        self._merge(file, result, first["tests"])
        return result

    def judge_again(self, file: str, result: Results) -> None:
        """Run only what failed here and passes there, and put it in the place of what was."""
        failed = not_at_par(result)
        if failed:
            found = self._run(file, failed)["tests"]
            nothing = {"end": "not run", "steps": 0}
            self._merge(file, result, {name: found.get(name, nothing) for name in failed})

    def _merge(self, file: str, result: Results, ours: Results) -> None:
        """Put records of ours into a result, with what stock TensorFlow does in the tests that fail."""
        failed = [name for name, record in ours.items() if record["end"] not in ("pass", "skip")]
        stock: Results = {}
        if failed:
            target = str(self.runner.ask({"serve": self.options.devices})["target"])
            stock = self.runner.run(file, "stock", failed, target)["tests"]
        for name, record in ours.items():
            mine: Results = {"ours": record["end"], "steps": record["steps"], "seconds": record.get("seconds", 0)}
            if name in failed:
                other = stock.get(name, {"end": "not run", "steps": 0})
                mine.update(stock=other["end"], why=record.get("why", ""))
                mine["steps"] = max(mine["steps"], other["steps"])
            result["tests"][name] = mine

    def _run(self, file: str, tests: list[str] | None) -> Results:
        got = self.runner.run(file, "ours", tests, self._serve())
        assert self.server is not None
        if self.server.poll() is not None:
            got["end"] = f"the server died ({self.server.returncode})"
        elif got["end"] != "done":  # what a killed test left running there is not the next one's
            self._stop_server()
        return got

    def _serve(self) -> str:
        if self.server is None or self.server.poll() is not None:
            self.server = subprocess.Popen(
                [sys.executable, "-c", SERVER, str(self.options.devices)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self.server.stdout is not None
            self.target = self.server.stdout.readline().strip()
        return self.target

    def _stop_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def close(self) -> None:
        self._stop_server()
        self.runner.close()


class FrontLane:
    """A process that has imported TensorFlow, and one in which this front end is what `tensorflow` means."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.stock = Runner(options, options.judge, "tf_own_tests_child.py")
        self.ours = Runner(options, sys.executable, "tf_own_tests_front.py")

    def judge(self, file: str) -> Results:
        """Run a file there, and here the tests that pass there with steps in sessions."""
        there = self.stock.run(file, "stock", self.options.tests)
        passed = [name for name, record in there["tests"].items() if record["end"] == "pass" and record["steps"]]
        result: Results = {"found": there["found"], "end": there["end"], "tests": {}}
        self._run(file, result, passed)
        return result

    def judge_again(self, file: str, result: Results) -> None:
        """Run only what failed here, and put it in the place of what was."""
        self._run(file, result, not_at_par(result))

    def _run(self, file: str, result: Results, names: list[str]) -> None:
        if not names:
            return
        got = self.ours.run(file, "front", names)
        result["end"] = got["end"]
        absent: Results = {"end": "not run"}
        if not got["tests"] and got["end"].startswith("exit"):
            lines = log_of(self.options, file, "front").read_text(errors="replace").splitlines()
            absent = {"end": "error", "why": f"the file does not start: {lines[-1] if lines else ''}"}
        elif got["end"] == "done":
            absent = {"end": "error", "why": "the file has no test of this name here"}
        for name in names:
            record = got["tests"].get(name, absent)
            mine: Results = {"ours": record["end"], "steps": 1, "seconds": record.get("seconds", 0)}
            if record["end"] == "skip":
                mine["ours"] = "skipped here"
            if record["end"] != "pass":
                mine.update(stock="pass", why=record.get("why", ""))
            result["tests"][name] = mine

    def close(self) -> None:
        self.stock.close()
        self.ours.close()


def not_at_par(result: Results) -> list[str]:
    return [name for name, record in result["tests"].items() if record["ours"] != "pass" and is_judged(record)]


def log_of(options: argparse.Namespace, file: str, side: str) -> Path:
    return Path(options.out / "logs" / f"{key(file)}.{side}")


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
    ap.add_argument("--front", choices=("stock", "ours"), default="stock", help="whose front end; stock's: our server")
    ap.add_argument("--out", type=Path, default=None, help="default: a folder for each front end")
    ap.add_argument("--most", type=int, default=0, help="tests of a file, drawn at random; 0: all")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=300.0, help="a file may take")
    ap.add_argument("--megabytes", type=int, default=4000, help="a file's process may hold")
    ap.add_argument("--lanes", type=int, default=2)
    ap.add_argument("--devices", type=int, default=1, help="CPU devices of the servers that are judged")
    ap.add_argument("--tests", nargs="*", default=None, help="ids, Class.test")
    ap.add_argument("--again", action="store_true", help="also files that have results; only the failed tests of these")
    ap.add_argument("--table", action="store_true", help="print what --out holds and run nothing")
    options = ap.parse_args()
    options.out = options.out or Path(tempfile.gettempdir()) / f"tf-own-tests-{options.front}"
    for folder in ("results", "records", "logs", "tmp", "srcdir/org_tensorflow"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    if options.table:
        results = read_results(options.out)
        print("\n".join([*table(results), "", *reasons(results), "", *unjudged(results)]))
        return 0
    options.absl = ""
    if options.front == "ours":
        where = "import absl, os; print(os.path.dirname(absl.__path__[0]))"
        options.absl = subprocess.check_output([options.judge, "-c", where], text=True).strip()
    link = options.out / "srcdir/org_tensorflow/tensorflow"
    if not link.exists():
        link.symlink_to(Path(options.source).resolve() / "tensorflow")
    work: queue.SimpleQueue[str] = queue.SimpleQueue()
    todo = files_of(options)
    for file in todo:
        if options.again or not (options.out / "results" / f"{key(file)}.json").exists():
            work.put(file)

    def work_off() -> None:
        lane = FrontLane(options) if options.front == "ours" else ServerLane(options)
        try:
            while True:
                try:
                    file = work.get_nowait()
                except queue.Empty:
                    return
                began = time.monotonic()
                path = options.out / "results" / f"{key(file)}.json"
                if options.again and path.exists():
                    result: Results = json.loads(path.read_text())
                    lane.judge_again(file, result)
                else:
                    result = lane.judge(file)
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
