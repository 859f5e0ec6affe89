"""`tf.test`: programs' own tests run with it."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest.mock
from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf

SCRIPT = """
import collections
import dtfctl.runtime as tf

Pair = collections.namedtuple("Pair", "a b")


class SquareTest(tf.test.TestCase):
    def testSquare(self):
        with self.session():
            x = tf.square([2, 3])
            self.assertAllEqual(x.eval(), [4, 9])
            self.assertAllEqual(x, [4, 9])

    def testStateIsKept(self):
        with self.cached_session() as session:
            v = tf.get_variable("v", initializer=1.0)
            session.run(tf.global_variables_initializer())
        with self.cached_session():
            self.assertAllClose(1.0, v.eval())
            self.assertAllClose({"x": [1.0, (2.0, Pair(3.0, [1.0]))]}, {"x": [1.0, (2.0, Pair(3.0, [1.0]))]})

    def testGraphIsNew(self):
        self.assertEqual([], tf.global_variables())

    def testErrors(self):
        with self.cached_session(use_gpu=False):
            with self.assertRaisesOpError("must be positive"):
                tf.assert_positive(tf.placeholder_with_default(-1.0, []), message="must be positive").run()
        with self.assertRaisesWithPredicateMatch(ValueError, lambda e: "both" in str(e)):
            tf.make_tensor_proto(1, shape=[2], verify_shape=True, allow_broadcast=True)
        self.assertEqual(1, 2)


if __name__ == "__main__":
    tf.test.main()
"""


@pytest.mark.slow
def test_a_test_program_runs_and_reports_its_failure(tmp_path: Path) -> None:
    script = tmp_path / "square_test.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240, cwd=Path.cwd())
    assert "Ran 5 tests" in done.stderr, done.stderr
    assert "FAILED (failures=1, skipped=1)" in done.stderr and "1 != 2" in done.stderr, done.stderr
    assert done.returncode == 1


class _Case(tf.test.TestCase):
    __test__ = False

    def runTest(self) -> None:
        """Never run: the assertions are called."""


WRONG = {
    "assertAllClose": ([1.0, 2.0], [1.0, 2.1]),
    "assertNotAllClose": ([1.0], [1.0]),
    "assertAllEqual": ([1, 2], [1, 3]),
    "assertNotAllEqual": ([1], [1]),
    "assertAllGreater": ([1, 2], 1),
    "assertAllLess": ([1, 2], 2),
    "assertAllGreaterEqual": ([1, 2], 2),
    "assertAllLessEqual": ([1, 2], 1),
    "assertAllInRange": ([1, 4], 1, 3),
    "assertAllInSet": ([1, 4], {1, 2}),
    "assertDTypeEqual": (np.ones(1, np.float32), tf.float64),
    "assertNear": (1.0, 2.0, 0.5),
    "assertArrayNear": ([1.0], [2.0], 0.5),
    "assertNDArrayNear": (np.ones(2), np.zeros(2), 0.5),
    "assertShapeEqual": (np.ones(2), np.ones(3)),
    "assertStartsWith": ("abc", "b"),
    "assertDeviceEqual": ("/cpu:0", "/cpu:1"),
    "assertProtoEquals": ("name: 'a'", tf.NodeDef(name="b")),
}
RIGHT = {
    "assertAllClose": ({"a": [1.0, (2.0, [1])]}, {"a": [1.0, (2.0, [1])]}),
    "assertNotAllClose": ([1.0], [1.1]),
    "assertAllEqual": ([b"a"], ["a"]),
    "assertNotAllEqual": ([1], [2]),
    "assertAllGreater": ([2, 3], 1),
    "assertAllLess": ([1, 2], 3),
    "assertAllGreaterEqual": ([1, 2], 1),
    "assertAllLessEqual": ([1, 2], 2),
    "assertAllInRange": ([1, 3], 1, 3),
    "assertAllInSet": ([1, 2], {1, 2}),
    "assertDTypeEqual": (np.ones(1, np.float32), tf.float32),
    "assertNear": (1.0, 1.2, 0.5),
    "assertArrayNear": ([1.0], [1.2], 0.5),
    "assertNDArrayNear": (np.ones(2), np.ones(2) + 0.1, 0.5),
    "assertShapeEqual": (np.ones(2), np.zeros(2)),
    "assertStartsWith": ("abc", "a"),
    "assertDeviceEqual": ("/cpu:0", "/device:CPU:0"),
    "assertProtoEquals": ("name: 'b'", tf.NodeDef(name="b")),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_the_assertion_tells_right_from_wrong(name: str) -> None:
    case = _Case()
    getattr(case, name)(*RIGHT[name])
    with pytest.raises(case.failureException):
        getattr(case, name)(*WRONG[name])


def test_a_loose_type_is_compared_loosely() -> None:
    case = _Case()
    half = np.array([1.0005], np.float16)
    case.assertAllCloseAccordingToType(half, np.array([1.0], np.float32))
    with pytest.raises(AssertionError):
        case.assertAllClose(half, np.array([1.0], np.float32))


def test_numeric_gradients_agree_with_symbolic_ones() -> None:
    with tf.Graph().as_default(), tf.Session():
        x = tf.placeholder(tf.float64, [2, 3])
        at = np.arange(6, dtype=np.float64).reshape(2, 3)
        symbolic, numeric = tf.test.compute_gradient(x, [2, 3], tf.reduce_sum(x * x, 1), [2], at)
        np.testing.assert_allclose(numeric, symbolic, 1e-6, 1e-6)
        assert symbolic[:, 0].tolist() == [0, 2, 4, 0, 0, 0]
        assert tf.test.compute_gradient_error(x, [2, 3], tf.exp(x / 9), [2, 3]) < 1e-6
        c = tf.placeholder(tf.complex128, [2])
        assert tf.test.compute_gradient_error(c, [2], c * c, [2]) < 1e-6

        @tf.RegisterGradient("WrongByTwo")
        def _wrong(op: tf.Operation, grad: tf.Tensor) -> tf.Tensor:
            return grad * 2.0

        with tf.get_default_graph().gradient_override_map({"Identity": "WrongByTwo"}):
            y = tf.identity(x)
        assert tf.test.compute_gradient_error(x, [2, 3], y, [2, 3]) > 0.9


def test_a_local_cluster_computes() -> None:
    workers, parameter_servers = tf.test.create_local_cluster(2, 1)
    assert (len(workers), len(parameter_servers)) == (2, 1)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=2.0)
        with tf.device("/job:worker/task:1"):
            y = v * 3.0
        with tf.Session(workers[0].target) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(y) == 6.0


def test_equal_graphs_are_told_from_others() -> None:
    def graph(value: float) -> tf.GraphDef:
        with tf.Graph().as_default() as g:
            tf.constant(value, name="a")
        return g.as_graph_def()

    tf.test.assert_equal_graph_def(graph(1.0), graph(1.0))
    with pytest.raises(AssertionError, match="a differs"):
        tf.test.assert_equal_graph_def(graph(1.0), graph(2.0))


def test_questions_about_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tf.test.is_gpu_available() == bool(tf.test.gpu_device_name())
    assert Path(tf.test.get_temp_dir()).is_dir()
    assert tf.test.test_src_dir_path("data") == os.path.join(os.path.dirname(os.path.realpath(__file__)), "data")
    assert not tf.test.is_built_with_rocm()
    assert tf.test.mock is unittest.mock
