"""A test that is written for TensorFlow's own test_util runs with this front end as TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os
import sys
import unittest

import tensorflow.compat.v1 as tf
from tensorflow.core.example import example_pb2
from tensorflow.core.util.event_pb2 import SessionLog
from tensorflow.python import tf2
from tensorflow.python.client import device_lib
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import context
from tensorflow.python.framework import config, constant_op, ops, random_seed, sparse_tensor, test_util
from tensorflow.python.lib.io import file_io
from tensorflow.python.ops import array_ops, gradient_checker, gradient_checker_v2, math_ops, resource_variable_ops
from tensorflow.python.ops import stateless_random_ops, variable_v1
from tensorflow.python.ops.signal import window_ops
from tensorflow.python.platform import googletest, test
from tensorflow.python.summary.writer import writer
from tensorflow.python.util.tf_export import tf_export


@test_util.run_all_in_graph_and_eager_modes
class BothModes(test.TestCase):
    def testGraph(self):
        self.assertFalse(context.executing_eagerly() or tf2.enabled())
        self.assertAllEqual([2, 4], self.evaluate(math_ops.multiply([1, 2], 2)))


class OtherTests(test_util.TensorFlowTestCase):
    @test_util.run_v2_only
    def testTwo(self):
        self.fail("is for TensorFlow 2")

    @test_util.run_gpu_only
    def testGpu(self):
        self.assertTrue(test.is_gpu_available())

    @test_util.run_deprecated_v1
    @test_util.disable_xla("a reason")
    def testOne(self):
        with self.cached_session(), test_util.use_gpu():
            x = test_util.NHWCToNCHW(array_ops.ones([1, 2, 3, 4]))
            self.assertAllEqual([1, 4, 2, 3], x.eval().shape)
            self.assertEqual([1, 2, 3, 4], test_util.NCHWToNHWC([1, 4, 2, 3]))
        with self.assertRaisesRegex(ValueError, "rank 4 or 5"):
            test_util.NHWCToNCHW([1, 2])

    @test.disable_with_predicate(lambda: True, "never")
    def testDisabled(self):
        self.fail("is disabled")

    def testContainers(self):
        self.assertLen([1, 2], 2)
        self.assertEmpty([])
        self.assertItemsEqual([1, 2, 2], [2, 1, 2])
        self.assertDictEqual({"a": constant_op.constant([1])}, {"a": [1]})
        with self.assertRaises(AssertionError):
            self.assertDictEqual({"a": [1]}, {"a": [2]})
        with self.assertRaises(AssertionError):
            self.assertItemsEqual([1, 2, 2], [2, 1])
        with self.captureWritesToStream(sys.stderr) as written:
            print("to be seen", file=sys.stderr)
        self.assertIn("to be seen", written.contents())
        file_io.write_string_to_file(self.create_tempfile("a/b").full_path, "text")

    def testThreads(self):
        def fails():
            raise ValueError("in the thread")

        thread = self.checkedThread(fails)
        thread.start()
        with self.assertRaisesRegex(AssertionError, "in the thread"):
            thread.join()

    def testOps(self):
        graph = constant_op.constant(1, name="one").graph
        self.assertEqual("Const", test_util.assert_ops_in_graph({"one": "Const"}, graph)["one"].op)
        self.assertEqual("one", test_util.get_node_def_from_graph("one", graph.as_graph_def()).name)


class GradientsTest(test.TestCase):
    def testFunctions(self):
        with self.session():
            theoretical, numeric = gradient_checker_v2.compute_gradient(lambda x, y: x * y[0], [[1.0, 2.0], [3.0]])
            self.assertAllClose([[[3, 0], [0, 3]], [[1], [2]]], theoretical)
            self.assertLess(gradient_checker_v2.max_error(theoretical, numeric), 1e-2)
            x = constant_op.constant([2.0])
            self.assertLess(gradient_checker.compute_gradient_error(x, [1], x * x, [1]), 1e-2)

    def testTapes(self):
        with self.session(), test_util.AbstractGradientTape(use_tape=False) as tape:
            x = constant_op.constant(3.0)
            tape.watch(x)
            self.assertEqual(6.0, tape.gradient(x * x, x).eval())

    def testHandles(self):
        with self.session() as session:
            handle = resource_variable_ops.var_handle_op("float32", [2], shared_name="kept")
            session.run(resource_variable_ops.assign_variable_op(handle, constant_op.constant([1.0, 2.0])))
            self.assertAllEqual([1, 2], resource_variable_ops.read_variable_op(handle, dtype="float32").eval())
            self.assertAllEqual([2], resource_variable_ops.variable_shape(handle).eval())
            variable = resource_variable_ops.ResourceVariable(1.0)
            self.assertTrue(resource_variable_ops.is_resource_variable(variable))
            constant_op.constant(1).graph.switch_to_thread_local()

    def testNames(self):
        self.assertEqual(["CPU"], [d.device_type for d in device_lib.list_local_devices() if d.device_type == "CPU"])
        self.assertFalse(config.tensor_float_32_execution_enabled())
        before = os.environ.get("DTF_NATIVE")
        config.enable_op_determinism()
        self.assertEqual("0", os.environ["DTF_NATIVE"])
        config.disable_op_determinism()
        self.assertEqual(before, os.environ.get("DTF_NATIVE"))
        self.assertEqual((random_seed.DEFAULT_GRAPH_SEED, 5), random_seed.get_seed(5))
        self.assertFalse(ops.inside_function())
        self.assertTrue(sparse_tensor.is_sparse(tf.SparseTensor([[0]], [1], [2])))
        tf.data.Dataset.range(1).map(lambda x: self.assertTrue(ops.inside_function()) or x)
        dataset = dataset_ops.Dataset.range(3)
        self.assertEqual("int64", dataset_ops.get_legacy_output_types(dataset).name)
        self.assertIs(tf.reduce_sum, math_ops.reduce_sum_v1)
        self.assertIs(tf.signal.hann_window, window_ops.hann_window)


class Times(test.Benchmark):
    def measure(self, session, op):
        return self.run_op_benchmark(session, op, min_iters=3, store_trace=True, name="sum", mbs=1)


with test.mock.patch("builtins.print") as printed, variable_v1.VariableV1([1.0]).graph.as_default() as graph:
    from tensorflow.python.client import session
    found = Times().measure(session.Session(), math_ops.add(1, 2))
assert found["iters"] == 3 and found["wall_time"] > 0 and "traceEvents" in found["extras"]["full_trace_chrome_format"]
assert printed.call_args[0][0]["name"] == "Times.sum"
assert tf_export("a.b", v1=[])(max) is max
assert example_pb2.Example and SessionLog and writer.FileWriter and stateless_random_ops.stateless_random_uniform

if __name__ == "__main__":
    googletest.main()
"""


def test_decorated_tests_run_in_graphs_and_are_skipped_where_they_cannot(tmp_path: Path) -> None:
    script = tmp_path / "modes_test.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "dtfctl.run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    assert "Ran 15 tests" in done.stderr and "skipped=" in done.stderr, done.stderr
    assert done.stderr.count("is for TensorFlow 2") == 0
