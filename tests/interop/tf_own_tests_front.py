"""Run test files of TensorFlow with `tensorflow` resolved to this front end, forked from a process that imported it.

Started by `tests.interop.tf_own_tests --front ours` as `python tf_own_tests_front.py SOURCE`; its requests are those of
tf_own_tests_runs.py. What is read from SOURCE is the tests' own: their bases and helpers. DTF_TEST_ABSL is the folder
that has absl.
"""

from __future__ import annotations

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
    r"|.*(_test_util|test_base|_test_ops|fake_summary_writer)|ops\.parallel_for\.test_util|data\.ops\.test_mode)$"
)


class FromSource:
    """Finds libraries of tests that are plain Python, and what tests share among them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("absl", "six", "opt_einsum"):
            return importlib.machinery.PathFinder.find_spec(name, path or [ABSL])
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


import tf_own_tests_runs as tests  # noqa: E402

from dtfctl.runtime.api import test  # noqa: E402
from dtfctl.runtime.programs.as_tensorflow import install  # noqa: E402


class Steps:
    """Nothing is counted here: which tests run steps is what stock TensorFlow says."""

    steps = 1


def main():
    install()
    sys.meta_path.insert(0, FromSource)

    def run(request):
        tests.run_file(request, Steps(), lambda run_tests: setattr(test, "main", run_tests))

    tests.answer(sys.stdin, run, lambda _: {})


if __name__ == "__main__":
    main()
