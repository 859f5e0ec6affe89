"""Run test files of TensorFlow with `tensorflow` resolved to this front end, forked from a process that imported it.

Started by `tests.interop.tf_own_tests --front ours` as `python tf_own_tests_front.py SOURCE`; its requests are those of
tf_own_tests_runs.py. What is read from SOURCE is the tests' own: their bases and helpers. DTF_TEST_ABSL is the folder
that has absl.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys

SOURCE = os.path.abspath(sys.argv[1])
ABSL = os.environ["DTF_TEST_ABSL"]
# Helpers of tests; `framework.test_util` is not among them, it is what `tensorflow` stands for.
HELPERS = re.compile(
    r"tensorflow\.python\.((data\.(experimental\.)?)?kernel_tests(\..*)?|framework\.(test_)?combinations"
    r"|.*(_test_util|test_base|_test_ops|fake_summary_writer)|ops\.parallel_for\.test_util|data\.ops\.test_mode"
    r"|ops\.collective_ops)$"  # no program has its names; it makes raw ops
)
RAW_COLLECTIVES = "tensorflow.python.ops.gen_collective_ops"


class FromSource:
    """Finds libraries of tests that are plain Python, and what tests share among them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("absl", "six", "opt_einsum"):
            return importlib.machinery.PathFinder.find_spec(name, path or [ABSL])
        if name == RAW_COLLECTIVES:
            return importlib.machinery.ModuleSpec(name, RawCollectives)
        if not HELPERS.match(name):
            return None
        place = os.path.join(SOURCE, *name.split("."))
        if os.path.isfile(place + ".py"):
            return importlib.util.spec_from_file_location(name, place + ".py")
        if os.path.isdir(place):
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [place]
            return spec
        return None


class RawCollectives:
    """Makes the module of raw ops that TensorFlow's build generates: `collective_reduce` for CollectiveReduce."""

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        for op in COLLECTIVES:
            if not op.startswith("_"):
                name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", op).lower()
                setattr(module, name, RawCollectives.positional(op))

    @staticmethod
    def positional(op):
        inputs = [argument.name for argument in get_signature(op).inputs]
        return lambda *given, **named: getattr(raw_ops, op)(**dict(zip(inputs, given)), **named)


import tf_own_tests_runs as tests  # noqa: E402

from dtfctl.runtime.api import raw_ops, test  # noqa: E402
from dtfctl.runtime.framework.op_signature import get_signature  # noqa: E402
from dtfctl.runtime.framework.structural_ops import COLLECTIVES  # noqa: E402
from dtfctl.runtime.programs.as_tensorflow import install  # noqa: E402


class Steps:
    """Nothing is counted here: which tests run steps is what stock TensorFlow says."""

    steps = 1


def main():
    install()
    sys.meta_path.insert(0, FromSource)
    # What tests do before each, and no program.
    importlib.import_module("tensorflow.python.eager.context")._reset_context = lambda: None

    def run(request):
        tests.run_file(request, Steps(), lambda run_tests: setattr(test, "main", run_tests))

    tests.answer(sys.stdin, run, lambda _: {})


if __name__ == "__main__":
    main()
