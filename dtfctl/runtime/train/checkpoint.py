"""`tf.train.Checkpoint`: the variables that objects hold, kept and found by the attributes that lead to them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from dtfctl.protocol.trackable_object_graph_pb2 import TrackableObjectGraph
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.errors import NotFoundError
from dtfctl.runtime.framework.func_graph import outermost_graph
from dtfctl.runtime.ops.variable_collections import is_variable_initialized, variables_initializer
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train import object_graph
from dtfctl.runtime.train.checkpoint_management import (
    checkpoint_exists,
    get_checkpoint_state,
    remove_checkpoint,
    update_checkpoint_state,
)
from dtfctl.runtime.train.checkpoint_utils import load_checkpoint
from dtfctl.runtime.train.saveables import SaveableObject
from dtfctl.runtime.train.saver import Saver


def _session(session: Any) -> Any:
    found = session or get_default_session()
    if found is None:
        raise RuntimeError("Checkpoints are written and read in a session: pass one, or use `with tf.Session():`")
    return found


class _Description(SaveableObject):
    """The description of the objects, as a string beside their values."""

    def __init__(self, content: bytes) -> None:
        with outermost_graph().name_scope(None):
            tensor = constant(content, dtypes.string)
        super().__init__(tensor, [(tensor, "", object_graph.GRAPH_KEY)], object_graph.GRAPH_KEY)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """Leave it: what is read describes what was written."""
        return restored_tensors[0].op


class Checkpointer:
    """Writes and reads the variables below one object."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._saver: tuple[bytes, Saver] | None = None

    def save(self, prefix: str, session: Any) -> str:
        """Write a checkpoint of that name; returns the name."""
        proto, variables = object_graph.serialize(self._root)
        content = proto.SerializeToString()
        if self._saver is None or self._saver[0] != content:
            held: dict[str, Any] = {**variables, object_graph.GRAPH_KEY: _Description(content)}
            self._saver = content, Saver(held, max_to_keep=None, sharded=True)
        self._saver[1].save(session, prefix, write_meta_graph=False, write_state=False)
        return prefix

    def restore(self, prefix: str) -> CheckpointLoadStatus:
        """Begin to read a checkpoint.

        Raises:
            NotFoundError: there is none of that name.
        """
        if not checkpoint_exists(prefix):
            raise NotFoundError(f"Failed to find any matching files for {prefix}")
        return CheckpointLoadStatus(self._root, prefix)


class CheckpointLoadStatus:
    """A checkpoint that is being read: say what must be in it, then run `initialize_or_restore`."""

    def __init__(self, root: Any, prefix: str) -> None:
        self._root, self._prefix = root, prefix
        reader = load_checkpoint(prefix)
        names = reader.get_variable_to_shape_map()
        self._named: set[str] | None = None
        self._proto = TrackableObjectGraph()
        if object_graph.GRAPH_KEY in names:
            value: Any = reader.get_tensor(object_graph.GRAPH_KEY)
            self._proto.ParseFromString(value.item() if hasattr(value, "item") else value)
        else:
            # A checkpoint of tf.train.Saver: by the variables' names.
            self._named = set(names)

    def _match(self) -> object_graph.Match:
        if self._named is None:
            return object_graph.match(self._root, self._proto)
        variables = object_graph.serialize(self._root)[1]
        values = {v._shared_name: v for v in variables.values() if v._shared_name in self._named}
        return object_graph.Match(values, list(variables.values()), set())

    def assert_consumed(self) -> CheckpointLoadStatus:
        """Check that all that the checkpoint has is in the program, and the other way round.

        Raises:
            AssertionError: something is not.
        """
        self.assert_existing_objects_matched()
        found = self._match()
        left = [n for n in range(len(self._proto.nodes)) if n not in found.nodes and self._proto.nodes[n].attributes]
        if left:
            keys = [a.checkpoint_key for n in left for a in self._proto.nodes[n].attributes]
            raise AssertionError(f"Unresolved object in checkpoint {self._prefix}: {', '.join(keys[:5])}")
        return self

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Check that the checkpoint has a value for each variable of the program.

        Raises:
            AssertionError: it has not.
        """
        found = self._match()
        known = {id(v) for v in found.values.values()}
        missing = [v.name for v in found.objects if isinstance(v, Variable) and id(v) not in known]
        if missing:
            raise AssertionError(f"No values in checkpoint {self._prefix} for: {', '.join(missing[:5])}")
        return self

    assert_nontrivial_match = assert_existing_objects_matched

    def expect_partial(self) -> CheckpointLoadStatus:
        """Expect that only a part is used."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Give the variables that the checkpoint has values for these values."""
        values = self._match().values
        if values:
            Saver(values).restore(_session(session), self._prefix)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Give variables the checkpoint's values; initialize those that it has none for, unless they have one."""
        session = _session(session)
        found = self._match()
        known = {id(v) for v in found.values.values()}
        rest = [v for v in found.objects if isinstance(v, Variable) and id(v) not in known]
        if rest:
            ready = session.run([is_variable_initialized(v) for v in rest])
            missing = [v for v, is_ready in zip(rest, ready) if not is_ready]
            if missing:
                session.run(variables_initializer(missing))
        self.run_restore_ops(session)


class InitializationOnlyStatus:
    """What `restore(None)` returns: there is nothing to read."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def assert_consumed(self) -> InitializationOnlyStatus:
        """Fail: nothing was read."""
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    assert_existing_objects_matched = assert_nontrivial_match = assert_consumed

    def expect_partial(self) -> InitializationOnlyStatus:
        """Expect that only a part is used."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Fail: nothing was read."""
        raise AssertionError("No checkpoint specified, so no restore ops are available (save_path=None to restore).")

    def initialize_or_restore(self, session: Any = None) -> None:
        """Initialize all variables that have no value yet."""
        session = _session(session)
        found = [v for v in object_graph.serialize(self._root)[1].values() if isinstance(v, Variable)]
        ready = session.run([is_variable_initialized(v) for v in found]) if found else []
        missing = [v for v, is_ready in zip(found, ready) if not is_ready]
        if missing:
            session.run(variables_initializer(missing))


class Checkpoint:
    """Objects whose variables are saved and restored together: layers, models, optimizers, variables, lists of them.

    `tf.train.Checkpoint(model=model, optimizer=optimizer)` keeps each under the name that it is given here.

    Raises:
        ValueError: an argument is none of these.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._checkpointer = Checkpointer(self)
        self._save_counter: Any = None
        for name, value in kwargs.items():
            if not object_graph.is_trackable(value):
                raise ValueError(
                    f"`Checkpoint` was expecting {name} to be a trackable object (a Layer, Model, Optimizer or "
                    f"Variable), got {value!r}"
                )
            setattr(self, name, value)

    def _trackable_children(self) -> dict[str, Any]:
        held = {k: v for k, v in vars(self).items() if k[0] != "_" and object_graph.is_trackable(v)}
        return {**held, "save_counter": self.save_counter}

    @property
    def save_counter(self) -> Any:
        """The variable that counts how often it was saved: int64."""
        if self._save_counter is None:
            graph: Any = outermost_graph()
            with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
                self._save_counter = Variable(
                    constant(0, dtypes.int64), trainable=False, name="save_counter", use_resource=True
                )
                self._count_up = self._save_counter.assign_add(1)
        return self._save_counter

    def write(self, file_prefix: str, session: Any = None, options: None = None) -> str:
        """Write a checkpoint of this very name, not counted and in no `checkpoint` file; returns the name."""
        _no_options(options)
        session = _session(session)
        self._count_from_zero(session)
        return self._checkpointer.save(os.fspath(file_prefix), session)

    def save(self, file_prefix: str, session: Any = None, options: None = None) -> str:
        """Write the next checkpoint, `file_prefix-1`, `-2` and so on, and name it in the `checkpoint` file."""
        _no_options(options)
        session = _session(session)
        self._count_from_zero(session)
        count = int(session.run(self._count_up))
        path = self._checkpointer.save(f"{os.fspath(file_prefix)}-{count}", session)
        update_checkpoint_state(os.path.dirname(path), path, [path])
        return path

    def _count_from_zero(self, session: Any) -> None:
        counter = self.save_counter
        if not session.run(is_variable_initialized(counter)):
            session.run(counter.initializer)

    def restore(self, save_path: str | None) -> Any:
        """Begin to read a checkpoint, of this class or of `tf.train.Saver`, written here or by TensorFlow.

        Returns:
            A status: run its `initialize_or_restore()` once the variables are made.
        """
        if save_path is None:
            return InitializationOnlyStatus(self)
        _ = self.save_counter
        return self._checkpointer.restore(os.fspath(save_path))

    read = restore


def _no_options(options: Any) -> None:
    if options is not None:
        raise ValueError("checkpoints are written by the variables' tasks, at once: leave `options` out")


class CheckpointManager:
    """Keeps the newest checkpoints of a `Checkpoint` in a directory.

    Args:
        max_to_keep: older ones are deleted; None keeps all.
        keep_checkpoint_every_n_hours: of those that would be deleted, keep one in this time.
        step_counter: a variable of steps; `save` writes only where it has grown by `checkpoint_interval`.
        init_fn: called by `restore_or_initialize` where there is no checkpoint.
        last_checkpoint_step: the step of the checkpoint before; that of the first `save` counts without it.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        self._step_counter, self._interval = step_counter, checkpoint_interval
        self._init, self._last_step = init_fn, last_checkpoint_step
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        self._checkpoint, self._max_to_keep = checkpoint, max_to_keep
        self._every_hours, self._prefix = keep_checkpoint_every_n_hours, os.path.join(directory, checkpoint_name)
        self._directory = os.fspath(directory)
        state = get_checkpoint_state(self._directory)
        now = time.time()
        self._kept: dict[str, float] = {}
        self._preserved = now
        if state is not None:
            times = list(state.all_model_checkpoint_timestamps)
            paths = list(state.all_model_checkpoint_paths)
            self._kept = dict(zip(paths, times if len(times) == len(paths) else [now] * len(paths)))
            self._preserved = state.last_preserved_timestamp or now

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def checkpoints(self) -> list[str]:
        """The checkpoints that are kept, the oldest first."""
        return list(self._kept)

    @property
    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint, None if there is none."""
        return next(reversed(self._kept), None)

    @property
    def checkpoint_interval(self) -> int | None:
        """How many steps there are between checkpoints."""
        return self._interval

    def save(
        self, checkpoint_number: Any = None, check_interval: bool = True, options: None = None, *, session: Any = None
    ) -> str | None:
        """Write the next checkpoint, and delete those that are too old; returns its name.

        Args:
            check_interval: write nothing, and return None, before `checkpoint_interval` steps have been made.
        """
        _no_options(options)
        session = _session(session)
        if self._interval is not None:
            step = int(session.run(self._step_counter))
            if check_interval and self._last_step is not None and step < self._last_step + self._interval:
                return None
            self._last_step = step
        if checkpoint_number is None:
            self._checkpoint._count_from_zero(session)
            number = int(session.run(self._checkpoint._count_up))
        elif isinstance(checkpoint_number, int):
            number = checkpoint_number
        else:
            number = int(session.run(checkpoint_number))
        path = self._checkpoint.write(f"{self._prefix}-{number}", session)
        self._kept.pop(path, None)
        self._kept[path] = time.time()
        self._delete_old()
        update_checkpoint_state(
            self._directory, path, list(self._kept), None, list(self._kept.values()), self._preserved
        )
        return path

    def _delete_old(self) -> None:
        while self._max_to_keep is not None and len(self._kept) > self._max_to_keep:
            path, written = next(iter(self._kept.items()))
            del self._kept[path]
            if self._every_hours is not None and written - self._every_hours * 3600.0 >= self._preserved:
                self._preserved = written
                continue
            remove_checkpoint(path)

    def restore_or_initialize(self) -> str | None:
        """Read the newest checkpoint, or initialize the variables and call `init_fn` when there is none.

        Returns:
            The checkpoint's name.
        """
        path = self.latest_checkpoint
        self._checkpoint.restore(path).initialize_or_restore()
        if path is None and self._init is not None:
            self._init()
        return path
