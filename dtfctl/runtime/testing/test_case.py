"""A unittest.TestCase with a graph for each test, sessions, and assertions about errors, protos and devices."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from google.protobuf import text_format

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context, errors
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import set_random_seed
from dtfctl.runtime.framework.tensor_util import is_tensor
from dtfctl.runtime.testing.assertions import Assertions
from dtfctl.runtime.testing.devices import get_temp_dir, gpu_device_name

_SEED = 87654321


class TestCase(Assertions):
    """Each test starts with an empty default graph and fixed seeds."""

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._cached: tuple[Session, Any, Any] | None = None
        self._temp_dir: str | None = None

    def setUp(self) -> None:
        if self._testMethodName == "test_session":
            self.skipTest("test_session is a method for tests to call, only its name is a test's")
        self._close_cached()
        random.seed(_SEED)
        np.random.seed(_SEED)
        context.reset_default_graph()
        set_random_seed(_SEED)

    def tearDown(self) -> None:
        self._close_cached()

    def _close_cached(self) -> None:
        if self._cached is not None:
            self._cached[0].close()
            self._cached = None

    def get_temp_dir(self) -> str:
        """Return a folder of this test's own, empty at first and removed after it."""
        if self._temp_dir is None:
            self._temp_dir = tempfile.mkdtemp(dir=get_temp_dir())
            self.addCleanup(self._remove_temp_dir)
        return self._temp_dir

    def _remove_temp_dir(self) -> None:
        if self._temp_dir is not None:
            shutil.rmtree(self._temp_dir)
            self._temp_dir = None

    @contextlib.contextmanager
    def session(
        self,
        graph: Graph | None = None,
        config: config_pb2.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """Open a session that is the default inside, with its graph.

        Args:
            use_gpu: False places ops on the CPU.
            force_gpu: place ops on the GPU.
        """
        with (
            Session(graph=graph, config=_softly(config, force_gpu)) as session,
            _placed(session.graph, use_gpu, force_gpu),
        ):
            yield session

    @contextlib.contextmanager
    def cached_session(
        self,
        graph: Graph | None = None,
        config: config_pb2.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """Open the test's one session: each call gives the same, with the state it has.

        Raises:
            ValueError: an earlier call asked for another graph or config.
        """
        if self._cached is None:
            self._cached = (Session(graph=graph, config=_softly(config, force_gpu)), graph, config)
        session, first_graph, first_config = self._cached
        if graph is not first_graph or config is not first_config:
            raise ValueError("cached_session was called with another graph or config before; use session")
        with session.graph.as_default(), session.as_default(), _placed(session.graph, use_gpu, force_gpu):
            yield session

    @contextlib.contextmanager
    def test_session(
        self,
        graph: Graph | None = None,
        config: config_pb2.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """`cached_session` when no graph is given, else `session`."""
        make = self.cached_session if graph is None else self.session
        with make(graph, config, use_gpu, force_gpu) as session:
            yield session

    test_session.__test__ = False  # type: ignore[attr-defined]

    def evaluate(self, tensors: Any) -> Any:
        """Evaluate tensors (nested as they are) in the default session, or the test's own."""
        if context.get_default_graph().executes:
            from dtfctl.runtime.framework import nest

            return nest.map_structure(lambda t: t.numpy() if hasattr(t, "numpy") else t, tensors)
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.test_session() as own:
            return own.run(tensors)

    def evaluate_if_both_tensors(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Evaluate two tensors in one step; other values are returned as they are."""
        if is_tensor(a) and is_tensor(b):
            both = self.evaluate([a, b])
            return both[0], both[1]
        return a, b

    def assertProtoEqualsVersion(
        self,
        expected: str,
        actual: graph_pb2.GraphDef,
        producer: int | None = None,
        min_consumer: int = 0,
        msg: Any = None,
    ) -> None:
        """Assert that a graph is the one that a text describes, with a producer's version."""
        producer = actual.versions.producer if producer is None else producer
        versions = f"versions {{ producer: {producer} {f'min_consumer: {min_consumer}' if min_consumer else ''} }}"
        self.assertProtoEquals(f"{expected} {versions}", actual, msg)

    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: str | Callable[[Any], bool]
    ) -> Any:
        """Assert in a context that an error is raised whose text (and op and its original one's) matches,
        or which passes."""
        return _raises(self, exception_type, expected_err_re_or_predicate)

    def assertRaisesOpError(self, expected_err_re_or_predicate: str | Callable[[Any], bool]) -> Any:
        """`assertRaisesWithPredicateMatch` for OpError."""
        return _raises(self, errors.OpError, expected_err_re_or_predicate)

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Assert that two names are of one device."""

        def canonical(device: Any) -> str:
            return DeviceSpec.from_string(device if isinstance(device, str) else (device or "")).to_string()

        self.assertEqual(canonical(device1), canonical(device2), msg)

    def assertProtoEquals(
        self,
        expected_message_maybe_ascii: Any,
        validate_message: Any,
        msg: str | None = None,
        relative_tolerance: float | None = None,
    ) -> None:
        """Assert that a message is equal to another, or to the one a text describes.

        Raises:
            ValueError: a tolerance is given.
        """
        if relative_tolerance is not None:
            raise ValueError("messages are compared as they are: compare their numbers with assertAllClose")
        expected, message = expected_message_maybe_ascii, validate_message
        if isinstance(expected, str):
            expected = text_format.Parse(expected, type(message)())
        self.assertEqual(type(expected), type(message), msg)
        if expected != message:
            self.assertMultiLineEqual(text_format.MessageToString(expected), text_format.MessageToString(message), msg)


@contextlib.contextmanager
def _raises(test: TestCase, kind: Any, expected: str | Callable[[Any], bool]) -> Iterator[None]:
    try:
        yield
    except kind as e:
        if callable(expected):
            test.assertTrue(expected(e), f"Exception of type {type(e)}: {e}")
            return
        text = getattr(e, "message", str(e))
        op = getattr(e, "op", None)
        if op is not None:
            text += f"\nCaused by op: {op.name}"
        test.assertTrue(re.search(expected, text), f"{expected!r} is not found in {text!r}")
        return
    test.fail(f"{kind.__name__} not raised")


def _softly(config: config_pb2.ConfigProto | None, force_gpu: bool) -> config_pb2.ConfigProto:
    """Let ops go to another device where the one they ask for is not there: what tests have without a config."""
    return config_pb2.ConfigProto(allow_soft_placement=not force_gpu) if config is None else config


@contextlib.contextmanager
def _placed(graph: Graph, use_gpu: bool, force_gpu: bool) -> Iterator[None]:
    if force_gpu:
        device = gpu_device_name()
        if not device:
            raise RuntimeError("force_gpu: this process has no GPU")
        with graph.device(device):
            yield
    elif use_gpu:
        yield
    else:
        with graph.device("/device:CPU:0"):
            yield


def assert_equal_graph_def(
    actual: graph_pb2.GraphDef,
    expected: graph_pb2.GraphDef,
    checkpoint_v2: bool = False,
    hash_table_shared_name: bool = False,
) -> None:
    """AssertionError unless two graphs have the same nodes, in whatever order.

    Args:
        checkpoint_v2, hash_table_shared_name: leave out the attributes whose names are random in a program's ops of
            checkpoints and of tables.

    Raises:
        TypeError: an argument is no GraphDef.
    """
    for what, value in (("actual", actual), ("expected", expected)):
        if not isinstance(value, graph_pb2.GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {what}, got {type(value).__name__}")

    def nodes(graph_def: graph_pb2.GraphDef) -> dict[str, graph_pb2.NodeDef]:
        found = {}
        for original in graph_def.node:
            node = graph_pb2.NodeDef()
            node.CopyFrom(original)
            if checkpoint_v2 and node.op == "Const" and "_temp_" in str(node.attr["value"].tensor.string_val):
                node.attr.pop("value", None)
            if hash_table_shared_name and node.op in ("HashTable", "HashTableV2"):
                node.attr.pop("shared_name", None)
            found[node.name] = node
        return found

    have, want = nodes(actual), nodes(expected)
    problems = [f"{name} is missing" for name in sorted(want.keys() - have.keys())]
    problems += [f"{name} is not expected" for name in sorted(have.keys() - want.keys())]
    problems += [
        f"{n} differs:\n{have[n]}\nexpected:\n{want[n]}"
        for n in sorted(have.keys() & want.keys())
        if have[n] != want[n]
    ]
    if problems:
        raise AssertionError("\n".join(problems))


def main(argv: Any = None) -> None:
    """Run the tests of the calling script, after its flags were parsed."""
    import sys
    import unittest

    from dtfctl.runtime.platform.flags import FLAGS

    rest = FLAGS(list(argv or sys.argv), known_only=True)
    os.environ.setdefault("TEST_TMPDIR", get_temp_dir())
    unittest.main(argv=rest)
