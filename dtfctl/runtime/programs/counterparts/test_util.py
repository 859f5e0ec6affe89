"""`tensorflow.python.framework.test_util`: the TestCase and decorators of tests that are written for several modes.

Programs here are TensorFlow 1's: what is for graph mode, or for graph mode and another, runs in a graph; what is for
eager execution or TensorFlow 2 only is skipped, and what is for GPUs only where there is none.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import unittest
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from dtfctl.protocol import graph_pb2, meta_graph_pb2
from dtfctl.runtime.api.test import (
    TestCase as TensorFlowTestCase,
    assert_equal_graph_def as assert_equal_graph_def_v1,
    create_local_cluster,
    gpu_device_name,
    is_gpu_available,
)
from dtfctl.runtime.eager.tape import GradientTape
from dtfctl.runtime.framework.context import get_default_graph
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.ops.array_ops import transpose
from dtfctl.runtime.ops.math_ops import matmul as matmul_without_tf32

__all__ = [
    "TensorFlowTestCase",
    "assert_equal_graph_def_v1",
    "create_local_cluster",
    "gpu_device_name",
    "is_gpu_available",
    "matmul_without_tf32",
]

F = TypeVar("F", bound=Callable[..., Any])


def _unchanged(thing: F | None = None, *_: Any, **__: Any) -> Any:
    """Return a test as it is, also where the decorator is called with arguments first."""
    return thing if callable(thing) else lambda real: real


# What these choose between is one thing here: there is no XLA, TFRT, MLIR or TF32, and no sanitizer in the build.
deprecated_graph_mode_only = run_deprecated_v1 = run_v1_only = run_all_in_deprecated_graph_mode_only = _unchanged
disable_asan = disable_mlir_bridge = disable_msan = disable_tsan = disable_ubsan = _unchanged
disable_tfrt = disable_xla = no_xla_auto_jit = enable_tf_xla_constant_folding = set_xla_env_flag = _unchanged
run_without_tensor_float_32 = run_all_without_tensor_float_32 = disable_cudnn_autotune = _unchanged
also_run_as_tf_function = enable_c_shapes = with_c_shapes = run_class_in_v1_v2 = run_in_v1_v2 = _unchanged
enable_control_flow_v2 = disable_control_flow_v2 = enable_output_all_intermediates = _unchanged
with_eager_op_as_function = enable_eager_op_as_function = disable_eager_op_as_function = _unchanged
enable_nested_function_shape_inference = enable_quantized_dtypes_training = py_func_if_in_function = _unchanged
assert_no_new_tensors = assert_no_garbage_created = assert_no_new_pyobjects_executing_eagerly = _unchanged
enable_graph_building_optimization = add_graph_building_optimization_tests = _unchanged


def _skips(reason: str, when: Callable[[], bool]) -> Callable[..., Any]:
    """Return a decorator, with or without arguments, of tests and of classes of them that are skipped at times."""

    def decorator(thing: Any = None, *_: Any, **__: Any) -> Any:
        if not callable(thing):
            return decorator
        if inspect.isclass(thing):
            set_up = thing.setUp  # type: ignore[attr-defined]

            def check_and_set_up(self: Any) -> None:
                if when():
                    self.skipTest(reason)
                set_up(self)

            thing.setUp = check_and_set_up  # type: ignore[attr-defined]
            return thing

        @functools.wraps(thing)
        def check_and_run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if when():
                self.skipTest(reason)
            return thing(self, *args, **kwargs)

        return check_and_run

    return decorator


run_v2_only = _skips("the test is for TensorFlow 2", lambda: True)
run_gpu_only = run_cuda_only = run_gpu_or_tpu = _skips("the test needs a GPU", lambda: not is_gpu_available())


def skip_if(condition: Callable[[], bool] | bool) -> Callable[[F], F]:
    """Return a decorator of tests that do nothing where a condition holds."""

    def decorator(function: F) -> F:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not (condition() if callable(condition) else condition):
                return function(*args, **kwargs)
            return None

        return run  # type: ignore[return-value]

    return decorator


@contextlib.contextmanager
def skip_if_error(
    test_obj: unittest.TestCase, error_type: type[Exception], messages: str | list[str] | None = None
) -> Iterator[None]:
    """Skip a test, in a block, where it raises an error whose text has one of some parts (any text: None)."""
    parts = [messages] if isinstance(messages, str) else messages or [""]
    try:
        yield
    except error_type as e:
        if not any(part in str(e) for part in parts):
            raise
        test_obj.skipTest(f"Skipping error: {type(e).__name__}: {e}")


def run_in_graph_and_eager_modes(
    func: Callable[..., Any] | None = None,
    config: Any = None,
    use_gpu: bool = True,
    assert_no_eager_garbage: bool = False,
) -> Any:
    """Run a test in a graph, with a session that is the default."""

    def decorator(function: Callable[..., Any]) -> Callable[..., None]:
        if inspect.isclass(function):
            raise ValueError(
                "`run_in_graph_and_eager_modes` only supports test methods. "
                "Did you mean to use `run_all_in_graph_and_eager_modes`?"
            )

        @functools.wraps(function)
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            with Graph().as_default(), self.test_session(use_gpu=use_gpu, config=config):
                function(self, *args, **kwargs)

        return run

    return decorator if func is None else decorator(func)


def for_all_test_methods(decorator: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator of classes that decorates each of their tests."""

    def decorate(cls: Any) -> Any:
        for name in dir(cls):
            value = getattr(cls, name)
            if callable(value) and name.startswith("test") and name != "test_session":
                setattr(cls, name, decorator(*args, **kwargs)(value))
        return cls

    return decorate


def run_all_in_graph_and_eager_modes(cls: Any) -> Any:
    """Run each test of a class in a graph, with a session that is the default."""
    return for_all_test_methods(run_in_graph_and_eager_modes)(cls)


def with_control_flow_v2(cls: Any) -> Any:
    """Give each test of a class a second one for TensorFlow 2's control flow, which here is the same."""
    for name, value in list(vars(cls).items()):
        if callable(value) and name.startswith("test") and not getattr(value, "_disable_control_flow_v2", False):
            setattr(cls, name + "WithControlFlowV2", value)
    return cls


def with_forward_compatibility_horizons(*horizons: Any) -> Callable[[F], F]:
    """Return a decorator that leaves tests as they are: ops do not change with the date."""
    return lambda function: function


def build_as_function_and_v1_graph(func: Callable[..., Any]) -> Callable[..., None]:
    """Run a test that builds a graph and runs no session."""

    @functools.wraps(func)
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        with Graph().as_default():
            func(self, *args, **kwargs)

    return run


def xla_allow_fallback(description: str) -> Callable[[F], F]:
    """Return a decorator that leaves tests as they are: there is no XLA here."""
    return lambda function: function


@contextlib.contextmanager
def device(use_gpu: bool) -> Iterator[None]:
    """Place ops on the first GPU where there is one and it is asked for, else on the CPU, in a block."""
    name = gpu_device_name() if use_gpu else ""
    with get_default_graph().device(name or "/device:CPU:0"):
        yield


@contextlib.contextmanager
def use_gpu() -> Iterator[None]:
    """Place ops on the first GPU where there is one, in a block."""
    with device(use_gpu=True):
        yield


@contextlib.contextmanager
def force_gpu() -> Iterator[None]:
    """Place ops on the first GPU, in a block."""
    with get_default_graph().device("/device:GPU:0"):
        yield


@contextlib.contextmanager
def force_cpu() -> Iterator[None]:
    """Place ops on the CPU, in a block."""
    with get_default_graph().device("/device:CPU:0"):
        yield


@contextlib.contextmanager
def deterministic_ops() -> Iterator[None]:
    """Compute as ever, in a block: sums here have one order."""
    yield


def is_xla_enabled() -> bool:
    """Return False: graphs are compiled by the runtime itself."""
    return False


is_mlir_bridge_enabled = is_asan_enabled = is_msan_enabled = is_tsan_enabled = is_ubsan_enabled = is_xla_enabled
IsBuiltWithROCm = IsBuiltWithXLA = IsBuiltWithNvcc = is_xla_enabled


def IsMklEnabled() -> bool:
    """Return True: convolutions and matrix products are oneDNN's."""
    return True


def GpuSupportsHalfMatMulAndConv() -> bool:
    """Tell whether this process has a GPU whose matrix products take half precision."""
    return is_gpu_available(min_cuda_compute_capability=(5, 3))


def _permuted(value: Any, orders: dict[int, list[int]]) -> Any:
    """Transpose a tensor by the order for its rank, or the sizes of one."""
    is_sizes = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    order = orders.get(len(value) if is_sizes else value.shape.ndims)
    if order is None:
        raise ValueError(f"a tensor of rank {' or '.join(map(str, orders))}, or its sizes, is needed")
    return [value[i] for i in order] if is_sizes else transpose(value, order)


def NHWCToNCHW(input_tensor: Any) -> Any:
    """Move channels from the last place to the second, of a tensor of rank 4 or 5 or of its sizes."""
    return _permuted(input_tensor, {4: [0, 3, 1, 2], 5: [0, 4, 1, 2, 3]})


def NCHWToNHWC(input_tensor: Any) -> Any:
    """Move channels from the second place to the last, of a tensor of rank 4 or 5 or of its sizes."""
    return _permuted(input_tensor, {4: [0, 2, 3, 1], 5: [0, 2, 3, 4, 1]})


class AbstractGradientTape:
    """A tape, or what looks like one and calls `tf.gradients`, for tests of both."""

    def __init__(self, use_tape: bool, persistent: bool = False) -> None:
        self._tape: Any = GradientTape(persistent=persistent) if use_tape else _Gradients()

    def __enter__(self) -> Any:
        return self._tape.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._tape.__exit__(*error)


class _Gradients:
    def __enter__(self) -> _Gradients:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: nothing was recorded."""

    def watch(self, x: Any) -> None:
        """Do nothing: gradients are those of the graph."""

    def gradient(self, y: Any, x: Any, grad_ys: Any = None) -> Any:
        found = gradients(y, x, grad_ys)
        return found if isinstance(x, (list, tuple)) else found[0]


def assert_ops_in_graph(expected_ops: dict[str, str], graph: Graph) -> dict[str, graph_pb2.NodeDef]:
    """Assert that a graph has ops of these names and types; return their nodes by name.

    Raises:
        ValueError: one is not there, or of another type.
    """
    found = {}
    for node in graph.as_graph_def().node:
        if node.name in expected_ops:
            if expected_ops[node.name] != node.op:
                expected = expected_ops[node.name]
                raise ValueError(
                    f"Expected op for node {node.name} is different. Expected: {expected}; Actual: {node.op}"
                )
            found[node.name] = node
    missing = set(expected_ops) - set(found)
    if missing:
        raise ValueError(f"Not all expected ops are present. Expected {set(expected_ops)}, found {set(found)}")
    return found


def assert_equal_graph_def_v2(expected: graph_pb2.GraphDef, actual: graph_pb2.GraphDef) -> None:
    """AssertionError unless two graphs have the same nodes, names that are random left out."""
    assert_equal_graph_def_v1(actual, expected, checkpoint_v2=True, hash_table_shared_name=True)


def assert_meta_graph_protos_equal(
    tester: unittest.TestCase, a: meta_graph_pb2.MetaGraphDef, b: meta_graph_pb2.MetaGraphDef
) -> None:
    """Assert that two MetaGraphDefs say the same, whatever the order of their nodes."""
    tester.assertEqual(set(a.collection_def), set(b.collection_def))
    for name in a.collection_def:
        tester.assertEqual(a.collection_def[name], b.collection_def[name], name)
    assert_equal_graph_def_v1(a.graph_def, b.graph_def)
    rest_a, rest_b = meta_graph_pb2.MetaGraphDef(), meta_graph_pb2.MetaGraphDef()
    rest_a.CopyFrom(a)
    rest_b.CopyFrom(b)
    for rest in (rest_a, rest_b):
        rest.ClearField("collection_def")
        rest.ClearField("graph_def")
    tester.assertEqual(rest_a, rest_b)


def set_producer_version(graph: Graph, producer_version: int) -> None:
    """Do nothing where the version is that of the ops here, which are those of one version.

    Raises:
        NotImplementedError: it is another one.
    """
    if producer_version != graph.as_graph_def().versions.producer:
        raise NotImplementedError(f"ops of version {producer_version}: only those of this version are there")


def get_node_def_from_graph(node_name: str, graph_def: graph_pb2.GraphDef) -> graph_pb2.NodeDef | None:
    """Return the node of a name; None where there is none."""
    return next((node for node in graph_def.node if node.name == node_name), None)
