"""TF1's Session: runs parts of a graph, in this process or on a cluster."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.backend import Backend, graph_key_alone
from dtfctl.runtime.client.default_session import default_session
from dtfctl.runtime.client.device_settings import SETTINGS
from dtfctl.runtime.client.direct_call import DirectCall, call_key
from dtfctl.runtime.client.feeds import FeedConverter, convert_feeds, feed_tensors
from dtfctl.runtime.client.fetches import FetchPlan, described, role_of
from dtfctl.runtime.client.partings import PARTINGS
from dtfctl.runtime.client.targets import open_backend, reset_target
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.precision import MIXED
from dtfctl.runtime.steps import recording

log = logging.getLogger(__name__)
_NODE = re.compile(r"\{\{node ([^{}]*)\}\}")
# Distinct structures of fetches a session remembers.
_MAX_PLANS = 1000


@dataclass(frozen=True)
class DeviceAttributes:
    """A device of a session, as `list_devices` gives it."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int

    def __repr__(self) -> str:
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, {self.incarnation})"


class BaseSession:
    """What Session and InteractiveSession share.

    Args:
        target: "" for this process, "grpc://host:port" or "unix:/path" for a task's master.
        graph: the default graph if None.

    Raises:
        TypeError: an argument is of the wrong type.
        OpError: the target is malformed.
    """

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: config_pb2.ConfigProto | None = None
    ) -> None:
        self._closed = True
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f'Argument `graph` must be a tf.Graph, but got "{type(graph).__name__}"')
        if isinstance(target, config_pb2.ConfigProto):
            raise TypeError(
                f'Argument `target` must be a string, but got "{type(target).__name__}". Did you do "Session(config)" '
                'instead of "Session(config=config)"?'
            )
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str) and target is not None:
            raise TypeError(f'Argument `target` must be a string, but got "{type(target).__name__}"')
        if config is not None and not isinstance(config, config_pb2.ConfigProto):
            raise TypeError(f'Argument `config` must be a tf.ConfigProto, but got "{type(config).__name__}"')
        self._graph: Graph = graph if graph is not None else context.get_default_graph()
        self._target = target or ""
        self._config = MIXED.configured(config if config is not None else SETTINGS.config())
        PARTINGS.prepare()
        self._backend: Backend = open_backend(self._target, self._config)
        self._lock = threading.RLock()
        self._created = False
        self._sent_version = -1
        self._sent_id = 0
        self._plans: dict[Any, tuple[FetchPlan, Any]] = {}
        self._calls: dict[tuple[Any, ...], DirectCall] = {}
        self._closed = False

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def graph_def(self) -> Any:
        return self._graph.as_graph_def(add_shapes=self._config.graph_options.infer_shapes)

    @property
    def sess_str(self) -> str:
        return self._target

    # Running ----------------------------------------------------------------------------------------------------------

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: config_pb2.RunOptions | None = None,
        run_metadata: config_pb2.RunMetadata | None = None,
    ) -> Any:
        """Run one step.

        Args:
            fetches: tensors, operations, names, variables, in any nest of lists, tuples, namedtuples, dicts.
            feed_dict: values in place of tensors.

        Returns:
            The same structure with values; None for operations.

        Raises:
            RuntimeError: the session is closed or the graph empty.
            TypeError, ValueError: fetches or feeds are at fault.
            OpError: the step failed; its class tells how.
        """
        recorder = recording.ACTIVE
        if recorder is not None and not recorder.is_inside:
            return recorder.run(
                described(fetches), lambda: self.run(fetches, feed_dict, options, run_metadata), role_of(fetches)
            )
        if options is not None and not options.ByteSize():
            # Sessions with hooks always give some; such that ask for nothing need no way of their own.
            options = None
        graph_key = 0
        if options is not None and run_metadata is None:
            graph_key = graph_key_alone(options)
        is_plain = run_metadata is None and (options is None or bool(graph_key))
        if is_plain and self._sent_version == self._graph._version:
            key = call_key(fetches, feed_dict)
            if graph_key:
                key = (*key, "key", graph_key)
            call = self._calls.get(key)
            if call is not None:
                try:
                    return call.run(feed_dict.values() if feed_dict else ())
                except OpError as e:
                    self._locate(e)
                    raise
        self._check_usable()
        feeds = convert_feeds(self._graph, feed_dict) if feed_dict else {}
        plan = self._plan(fetches)
        results = self._run_plan(plan, feeds, options, run_metadata)
        if is_plain:
            self._remember(fetches, feed_dict, plan, graph_key)
        return results

    def _remember(self, fetches: Any, feed_dict: Mapping[Any, Any] | None, plan: FetchPlan, graph_key: int) -> None:
        """Let the next step of this signature find all of it prepared."""
        keys = list(feed_dict) if feed_dict else []
        parts = list(fetches) if type(fetches) in (list, tuple) else [fetches]
        if not all(type(f) is Tensor or type(f) is Operation for f in parts):
            return
        if feed_dict is not None and type(feed_dict) is not dict:
            return
        if not all(type(k) is Tensor and k.graph is self._graph for k in keys) or not set(keys).isdisjoint(parts):
            return
        if self._closed or (not plan.names and not plan.target_names):
            return
        with self._errors():
            prepared = self._backend.prepare([k.name for k in keys], plan.names, plan.target_names, graph_key)
        if len(self._calls) >= _MAX_PLANS:
            self._calls.clear()
        converters = [FeedConverter(self._graph, k) for k in keys]
        key = call_key(fetches, feed_dict)
        self._calls[(*key, "key", graph_key) if graph_key else key] = DirectCall(
            plan, prepared, converters, (parts, keys)
        )

    def _run_with(self, fetches: Any, feeds: Mapping[Tensor, Any]) -> Any:
        """Run a step with feeds whose shapes are nobody's business but the ops' that get them."""
        self._check_usable()
        return self._run_plan(self._plan(fetches), feeds, None, None)

    def _run_plan(
        self,
        plan: FetchPlan,
        feeds: Mapping[Tensor, Any],
        options: config_pb2.RunOptions | None,
        metadata: config_pb2.RunMetadata | None,
    ) -> Any:
        names: Sequence[str] = plan.names
        local = [t for t in plan.tensors if t in feeds] if feeds else ()
        if local:
            names = [t.name for t in plan.tensors if t not in feeds]
        if names or plan.target_names:
            with self._errors():
                self._send_graph()
                by_name = {t.name: v for t, v in feeds.items()}
                values = self._backend.run(by_name, names, plan.target_names, options, metadata)
        else:
            values = []
        if local:
            computed = iter(values)
            # Copies: what was fed may live on in a queue or a variable of this process.
            values = [feeds[t].copy() if t in feeds else next(computed) for t in plan.tensors]
        return plan.results(values)

    def _plan(self, fetches: Any) -> FetchPlan:
        """Plan the fetching of a structure; the plan is remembered where the structure's identity tells what it is."""
        kind = type(fetches)
        if kind is list or kind is tuple:
            if not all(type(f) is Tensor or type(f) is Operation for f in fetches):
                return FetchPlan(self._graph, fetches)
            key: Any = (kind, *map(id, fetches))
        elif kind is Tensor or kind is Operation:
            key = id(fetches)
        elif kind is str:
            key = fetches
        else:
            return FetchPlan(self._graph, fetches)
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            # The elements are kept, so that their ids stay theirs.
            kept = tuple(fetches) if kind is list or kind is tuple else fetches
            found = self._plans[key] = FetchPlan(self._graph, fetches), kept
        return found[0]

    def _send_graph(self) -> None:
        """Let the master know what was added to the graph since the last time."""
        if self._sent_version == self._graph.version:
            return
        # What may be fed or fetched may have changed too.
        self._calls.clear()
        with self._lock, self._graph._lock:
            version, last_id = self._graph.version, self._graph.last_id
            if not self._created:
                self._backend.create(self._graph.as_graph_def())
                self._created = True
            elif last_id > self._sent_id:
                sent, then = self._sent_id, self._sent_version
                self._backend.extend(self._graph.as_graph_def(from_version=sent, grown_since=then))
            self._sent_version, self._sent_id = version, last_id

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self._graph.version == 0:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Point errors at the operation they name."""
        try:
            yield
        except OpError as e:
            self._locate(e)
            raise

    def _locate(self, error: OpError) -> None:
        match = _NODE.search(error.message)
        name = error.node or (match[1] if match else None)
        if name is None:
            return
        try:
            op = self._graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            return
        error.op = op
        error.node_def = op.node_def
        made = "".join(f'  File "{f.filename}", line {f.lineno}, in {f.name}\n' for f in op.traceback)
        error.add_note(f"Operation '{name}' was made here:\n{made}".rstrip())

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """Make a function that runs this step, with values for `feed_list` as arguments; faster than `run`.

        Raises:
            TypeError: `feed_list` is no list or tuple, or a fetch is at fault.
        """
        self._check_usable()
        if feed_list is not None:
            if not isinstance(feed_list, (list, tuple)):
                raise TypeError(f"Argument `feed_list` must be a list or tuple. Received: feed_list={feed_list}")
            keys = list(feed_list)

            def generic(*values: Any, **kwargs: Any) -> Any:
                return self.run(fetches, dict(zip(keys, values)), **kwargs)

            return generic
        plan = FetchPlan(self._graph, fetches)
        if accept_options:

            def with_options(
                options: config_pb2.RunOptions | None = None, run_metadata: config_pb2.RunMetadata | None = None
            ) -> Any:
                self._check_usable()
                return self._run_plan(plan, {}, options, run_metadata)

            return with_options

        call: DirectCall | None = None
        asked_for = -1

        def plain() -> Any:
            nonlocal call, asked_for
            recorder = recording.ACTIVE
            if recorder is not None and not recorder.is_inside:
                return recorder.run(described(fetches), plain, role_of(fetches))
            if call is not None and self._sent_version == self._graph._version and not self._closed:
                try:
                    return call.run(())
                except OpError as e:
                    self._locate(e)
                    raise
            self._check_usable()
            results = self._run_plan(plan, {}, None, None)
            if asked_for != self._sent_version and (plan.names or plan.target_names):
                asked_for = self._sent_version
                with self._errors():
                    prepared = self._backend.prepare([], plan.names, plan.target_names)
                call = DirectCall(plan, prepared, [], None)
            return results

        return plain

    def _make_callable_from_options(self, callable_options: config_pb2.CallableOptions) -> RemoteCallable:
        """Have the master compile a step now, with everything in CallableOptions."""
        self._check_usable()
        with self._errors():
            self._send_graph()
            return RemoteCallable(self, self._backend.make_callable(callable_options))

    # Partial runs -----------------------------------------------------------------------------------------------------

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Declare what the partial runs to come will fetch and feed; the handle for `partial_run`."""
        self._check_usable()
        tensors = feed_tensors(self._graph, feeds if feeds is not None else [])
        plan = FetchPlan(self._graph, fetches)
        with self._errors():
            self._send_graph()
            return self._backend.partial_run_setup([t.name for t in tensors], plan.names, plan.target_names)

    def partial_run(self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Feed and fetch some more of what was set up."""
        self._check_usable()
        feeds = convert_feeds(self._graph, feed_dict) if feed_dict else {}
        plan = self._plan(fetches)
        if plan.targets:
            raise RuntimeError(
                f"partial_run() requires empty `target_list`. Received: target_list={plan.targets} (non-empty)"
            )
        names = [t.name for t in plan.tensors if t not in feeds]
        values: list[Any] = []
        if names or feeds:
            with self._errors():
                values = self._backend.partial_run(handle, {t.name: v for t, v in feeds.items()}, names)
        computed = iter(values)
        return plan.results([feeds[t].copy() if t in feeds else next(computed) for t in plan.tensors])

    # Devices, closing -------------------------------------------------------------------------------------------------

    def list_devices(self) -> list[DeviceAttributes]:
        """List the devices the session can use."""
        with self._lock:
            if not self._created:
                self._backend.create(self._graph.as_graph_def() if self._graph.version else graph_pb2.GraphDef())
                self._created = True
                self._sent_version, self._sent_id = self._graph.version, self._graph.last_id
        return [
            DeviceAttributes(
                DeviceSpec.from_string(d.name).to_string(),
                d.device_type,
                d.memory_limit,
                int(np.uint64(d.incarnation).astype(np.int64)),
            )
            for d in self._backend.list_devices()
        ]

    def close(self) -> None:
        """Give up the session; its running steps are cancelled. Using it afterwards raises RuntimeError."""
        if self._closed:
            return
        self._closed = True
        self._plans.clear()
        self._calls.clear()
        self._backend.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._closed = True
            PARTINGS.leave(self._backend.close)

    def as_default(self) -> contextlib.AbstractContextManager[BaseSession]:
        """Make this the default session in a `with` block; it stays open afterwards."""
        return default_session(self)


class RemoteCallable:
    """A callable held by the master; released when no longer referenced."""

    def __init__(self, session: BaseSession, handle: int) -> None:
        self._session = session
        self._handle = handle

    def __call__(self, *args: Any, run_metadata: config_pb2.RunMetadata | None = None) -> list[Any]:
        with self._session._errors():
            values = [np.array(a) for a in args]
            return self._session._backend.run_callable(self._handle, values, run_metadata)

    def __del__(self) -> None:
        if not self._session._closed:
            PARTINGS.leave(partial(self._session._backend.release_callable, self._handle))


class Session(BaseSession):
    """A session that is closed at the end of a `with` block."""

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: config_pb2.ConfigProto | None = None
    ) -> None:
        super().__init__(target, graph, config)
        self._entered: contextlib.ExitStack | None = None

    def __enter__(self) -> Session:
        if self._entered is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a "
                "session multiple times."
            )
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._graph.as_default())
            stack.enter_context(self.as_default())
            self._entered = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack, self._entered = self._entered, None
        if stack is not None:
            stack.close()
        if kind is None:
            self.close()
            return
        # After an error nothing may keep the program from going on.
        closing = guard.once(self.close, name="SessionCloseThread")
        closing.start()
        closing.join(30.0)
        if closing.is_alive():
            log.error("Session failed to close after 30 seconds; going on without waiting for it.")

    @staticmethod
    def reset(
        target: str, containers: Sequence[str] | None = None, config: config_pb2.ConfigProto | None = None
    ) -> None:
        """Close all sessions of a master and clear resource containers (the default ones if none are named).

        Raises:
            OpError: tasks cannot be reached.
        """
        reset_target(target or "", list(containers or ()), config or config_pb2.ConfigProto())
