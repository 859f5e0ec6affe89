"""What runs test files of TensorFlow in processes that are forked from one that has imported a front end.

Each line of the input is a request in JSON: {"file", "records", "log", "tests", "most", "seed", "seconds", "megabytes",
...}; each line of the output is how that ended: {"end": "done" | "time" | "memory" | "signal N" | "exit N"}. `records`
is a file of JSON lines, one as each test starts and one as it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import runpy
import signal
import sys
import time
import traceback
import unittest


class Records(unittest.TestResult):
    def __init__(self, path, sessions):
        super().__init__()
        self.out = open(path, "a", buffering=1)  # noqa: SIM115
        self.sessions = sessions

    def startTest(self, test):
        super().startTest(test)
        self.how, self.why, self.before = "pass", "", self.sessions.steps
        self.began = time.perf_counter()
        self.out.write(json.dumps({"start": name_of(test)}) + "\n")
        signal.setitimer(signal.ITIMER_REAL, 90.0)

    def stopTest(self, test):
        signal.setitimer(signal.ITIMER_REAL, 0)
        record = {"test": name_of(test), "end": self.how, "steps": self.sessions.steps - self.before}
        record["seconds"] = round(time.perf_counter() - self.began, 3)
        if self.why:
            record["why"] = self.why
        self.out.write(json.dumps(record) + "\n")
        super().stopTest(test)

    def bad(self, how, err):
        if self.how == "pass":
            self.how = how
            trace = "".join(traceback.format_exception(*err))
            text = str(err[1])
            if len(text) > 4000:
                text = f"{text[:2000]} ... {text[-2000:]}"
            self.why = f"{err[0].__name__}: {text}"
            print("=" * 30, trace[-6000:], flush=True)

    def addError(self, test, err):
        if not hasattr(test, "_testMethodName"):  # of a class or module
            self.out.write(
                json.dumps({"test": str(test), "end": "error", "steps": 0, "why": str(err[1])[:1500]}) + "\n"
            )
            return
        self.bad("error", err)

    def addFailure(self, test, err):
        self.bad("failure", err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.bad("failure" if issubclass(err[0], test.failureException) else "error", err)

    def addSkip(self, test, reason):
        if self.how == "pass":
            self.how, self.why = "skip", reason[:200]

    def addExpectedFailure(self, test, err):
        pass

    def addUnexpectedSuccess(self, test):
        self.bad("failure", (AssertionError, AssertionError("unexpected success"), None))


def name_of(test):
    return f"{type(test).__name__}.{test._testMethodName}"


def flatten(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from flatten(one)
        elif isinstance(one, unittest.TestCase):
            yield one


# Of tests that are made for every mode: those that run eagerly, or not with TensorFlow 1's behavior.
OTHER_MODES = ("_mode_eager_", "_tfapiversion_2", "test_session")


def chosen(tests, names, most, seed):
    """Keep those that are named, or a random few that stay in their classes' order."""
    if names is not None:
        wanted = set(names)
        return [test for test in tests if name_of(test) in wanted]
    tests = [test for test in tests if not any(part in name_of(test) for part in OTHER_MODES)]
    if most and len(tests) > most:
        some = set(random.Random(seed).sample(range(len(tests)), most))
        tests = [test for i, test in enumerate(tests) if i in some]
    return tests


def run_file(request, sessions, lead):
    """Run a file whose `main` is what `lead` was given; sessions.steps counts the steps."""

    def too_long(*_):
        raise TimeoutError("the test took more than 90 s")

    signal.signal(signal.SIGALRM, too_long)

    def run_tests(argv=None):
        found = list(flatten(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
        records = Records(request["records"], sessions)
        records.out.write(json.dumps({"found": len(found)}) + "\n")
        unittest.TestSuite(chosen(found, request["tests"], request["most"], request["seed"])).run(records)
        records.out.write(json.dumps({"whole": True}) + "\n")

    lead(run_tests)
    path = request["file"]
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")


def resident_mb(pid):
    try:
        with open(f"/proc/{pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    except OSError:
        return 0


def end_of(pid, request):
    """Wait for a process within its limits; kills its whole process group."""
    until = time.monotonic() + request["seconds"]
    end = ""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if not end:
                code = os.waitstatus_to_exitcode(status)
                end = "done" if code == 0 else f"signal {-code}" if code < 0 else f"exit {code}"
            break
        if not end:
            end = "time" if time.monotonic() > until else "memory" if resident_mb(pid) > request["megabytes"] else ""
            if end:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # servers that a test started
    return end


def answer(requests, run, other):
    """Answer requests in processes of their own with run(request); what is no file's is other(request)."""
    for line in requests:
        request = json.loads(line)
        if "file" not in request:
            print(json.dumps(other(request)), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            code = 1
            try:
                os.makedirs(os.environ["TEST_TMPDIR"], exist_ok=True)  # a test may have removed it
                os.chdir(os.environ["TEST_TMPDIR"])
                nothing = os.open(os.devnull, os.O_RDONLY)
                log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(nothing, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                run(request)
                code = 0
            except SystemExit as e:
                code = 0 if e.code in (None, 0, False) else 1
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(json.dumps({"end": end_of(pid, request)}), flush=True)
