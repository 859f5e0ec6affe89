"""Run test files of TensorFlow in processes of their own, forked from one that has imported it.

Started by `tests.interop.tf_own_tests` with the Python that has TensorFlow: `python tf_own_tests_child.py SOURCE`. Each
line of its input is a request in JSON: {"file", "target", "records", "log", "tests", "most", "seed", "seconds",
"megabytes"}; each line of its output is how that ended: {"end": "done" | "time" | "memory" | "signal N" | "exit N"}.
`records` is a file of JSON lines, one as each test starts and one as it ends. {"serve": true} asks for {"target"}, of a
server of stock TensorFlow that lives as long as this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.machinery
import importlib.util
import json
import os
import random
import runpy
import signal
import sys
import time
import traceback
import types
import unittest

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF2_BEHAVIOR="0", PYTHONWARNINGS="ignore")
SOURCE = os.path.abspath(sys.argv[1])
FAKE_WRITER = "tensorflow.python.summary.writer.fake_summary_writer"


class FromSource:
    """Finds the Python modules that tests import and the wheel leaves out."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith("tensorflow."):
            return None
        place = os.path.join(SOURCE, *name.split("."))
        if os.path.isfile(place + ".py"):
            return importlib.util.spec_from_file_location(name, place + ".py")
        if os.path.isdir(place):
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [place]
            return spec
        return None


def alias(name, real):
    """Give a module of the wheel the name that it has where TensorFlow is built."""
    try:
        module = importlib.import_module(real)
    except ImportError:
        module = types.ModuleType(name)
        module.__path__ = []
    sys.modules[name] = module
    return module


import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import config_pb2  # noqa: E402
from tensorflow.python.client import session as client  # noqa: E402
from tensorflow.python.framework import test_util  # noqa: E402, F401
from tensorflow.python.platform import googletest  # noqa: E402

sys.meta_path.append(FromSource)
for tail in ("", ".tsl", ".tsl.protobuf", ".tsl.protobuf.rpc_options_pb2"):
    alias("xla" + tail, "tensorflow.compiler.xla" + tail)
alias("local_xla", "no_such_module").xla = alias("local_xla.xla", "tensorflow.compiler.xla")
alias("local_xla.xla.xla_data_pb2", "tensorflow.compiler.xla.xla_data_pb2")
with contextlib.suppress(ImportError):
    writers = importlib.import_module("tensorflow.python.summary.writer")
    writers.fake_summary_writer = importlib.import_module(FAKE_WRITER)
tf.compat.v1.disable_v2_behavior()


class Sessions:
    """Leads sessions that name no target to the server that is judged, and counts their steps."""

    def __init__(self, target):
        self.target = target
        self.steps = 0
        plain_init, plain_run, plain_callable = (
            client.BaseSession.__init__,
            client.BaseSession._do_run,
            client.BaseSession._Callable.__init__,
        )

        def init(session, to="", graph=None, config=None):
            session.judged = not to
            if target and not to:
                asked = config_pb2.ConfigProto()
                if config is not None:
                    asked.CopyFrom(config)
                asked.isolate_session_state = True
                asked.operation_timeout_in_ms = asked.operation_timeout_in_ms or 30000
                asked.use_per_session_threads = False
                del asked.session_inter_op_thread_pool[:]
                to, config = target, asked
            plain_init(session, to, graph, config)

        def do_run(session, *a, **k):
            self.steps += session.judged
            return plain_run(session, *a, **k)

        def callable_init(made, session, *a, **k):
            self.steps += getattr(session, "judged", False)
            plain_callable(made, session, *a, **k)

        client.BaseSession.__init__ = init
        client.BaseSession._do_run = do_run
        client.BaseSession._Callable.__init__ = callable_init


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


def run_file(request):
    sessions = Sessions(request["target"])

    def too_long(*_):
        raise TimeoutError("the test took more than 90 s")

    signal.signal(signal.SIGALRM, too_long)

    def run_tests(argv):
        found = list(flatten(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
        records = Records(request["records"], sessions)
        records.out.write(json.dumps({"found": len(found)}) + "\n")
        unittest.TestSuite(chosen(found, request["tests"], request["most"], request["seed"])).run(records)
        records.out.write(json.dumps({"whole": True}) + "\n")

    googletest.g_main = run_tests
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


class StockServer:
    """A server of stock TensorFlow in a process that ends with this one."""

    def __init__(self):
        self.pid = 0
        self.target = ""

    def here(self):
        if self.pid and os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            return self.target
        mine, its = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            server = tf.compat.v1.train.Server.create_local_server()
            os.write(its, server.target.encode())
            os.close(its)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nothing, descriptor)
            while True:
                signal.pause()
        os.close(its)
        self.target = os.read(mine, 1000).decode()
        os.close(mine)
        return self.target


def main():
    stock = StockServer()
    for line in sys.stdin:
        request = json.loads(line)
        if "serve" in request:
            print(json.dumps({"target": stock.here()}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            code = 1
            try:
                os.chdir(os.environ["TEST_TMPDIR"])
                nothing = os.open(os.devnull, os.O_RDONLY)
                log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(nothing, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                run_file(request)
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


if __name__ == "__main__":
    main()
