"""Run test files of TensorFlow in processes of their own, forked from one that has imported it.

Started by `tests.interop.tf_own_tests` with the Python that has TensorFlow: `python tf_own_tests_child.py SOURCE`; its
requests are those of tf_own_tests_runs.py, with the "target" of sessions that name none, and with the "task" that
starts one of a cluster that tests ask their base for (a command, to which cluster, job, index and configuration are
added); [] for TensorFlow's own. {"serve": N} asks for {"target"}, of a server of stock TensorFlow with N CPU devices
that lives as long as this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
import types

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
import tf_own_tests_runs as tests  # noqa: E402
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
with contextlib.suppress(ImportError):
    # Tests of strategies look for the program that Bazel has built of them, to start it again for more processes.
    importlib.import_module("tensorflow.python.distribute.multi_process_lib")._is_enabled = lambda: False
CLUSTERS = "tensorflow.python.distribute.multi_worker_test_base"
tf.compat.v1.disable_v2_behavior()


class Clusters:
    """Starts the tasks of clusters that tests ask their base for, and knows where they are."""

    def __init__(self, task):
        self.targets = set()
        base = importlib.import_module(CLUSTERS)
        plain = base.server_lib

        def serve(cluster, job_name, task_index, config=None, **options):
            self.targets.add(f"grpc://{cluster.as_dict()[job_name][task_index]}")
            if not task:
                return plain.Server(cluster, job_name=job_name, task_index=task_index, config=config, **options)
            asked = (config or config_pb2.ConfigProto()).SerializeToString().hex()
            command = [*task, json.dumps(cluster.as_dict()), job_name, str(task_index), asked]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{job_name}/{task_index} does not serve")
            return process

        base.server_lib = types.SimpleNamespace(ClusterSpec=plain.ClusterSpec, Server=serve)


class Sessions:
    """Leads sessions that name no target to the server that is judged, and counts their steps.

    Args:
        clusters: whose sessions count as well.
    """

    def __init__(self, target, clusters):
        self.target = target
        self.steps = 0
        plain_init, plain_run, plain_callable = (
            client.BaseSession.__init__,
            client.BaseSession._do_run,
            client.BaseSession._Callable.__init__,
        )

        def init(session, to="", graph=None, config=None):
            session.judged = not to or to in clusters.targets
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


class StockServer:
    """A server of stock TensorFlow in a process that ends with this one."""

    def __init__(self):
        self.pid = 0
        self.target = ""

    def here(self, devices):
        if self.pid and os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            return self.target
        mine, its = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            config = config_pb2.ConfigProto(device_count={"CPU": devices})
            server = tf.compat.v1.train.Server.create_local_server(config)
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

    def run(request):
        sessions = Sessions(request["target"], Clusters(request["task"]))
        tests.run_file(request, sessions, lambda run_tests: setattr(googletest, "g_main", run_tests))

    tests.answer(sys.stdin, run, lambda request: {"target": stock.here(request["serve"])})


if __name__ == "__main__":
    main()
