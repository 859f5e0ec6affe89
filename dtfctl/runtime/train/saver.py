"""`Saver`: checkpoints in TensorFlow's V2 format, written and read by the tasks through SaveV2 and RestoreV2."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from dtfctl.protocol import meta_graph_pb2
from dtfctl.runtime.checkpoint.bundle_writer import SNAPSHOT
from dtfctl.runtime.client.session import BaseSession
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.spans import Span, span
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.train import checkpoint_management as checkpoints, transfer_states
from dtfctl.runtime.train.meta_graph import export_meta_graph
from dtfctl.runtime.train.save_ops import host_device, save_sharded, save_together
from dtfctl.runtime.train.saveables import SaveableObject, all_saveable, saveables_of


class Saver:
    """Saves and restores variables.

    Args:
        var_list: variables, or a dict of them by the name they have in the checkpoint; all saveable ones when None.
        reshape: restore into variables of another shape with as many elements.
        sharded: every task writes its own variables; else the task that runs the save op gathers them.
        max_to_keep: how many checkpoints to keep; None or 0 keeps all.
        keep_checkpoint_every_n_hours: in addition keep one for this many hours of training.
        defer_build: add the ops at `build` instead of now.
        allow_empty: accept that there is nothing to save.

    Raises:
        ValueError: there are no variables, or two share a name.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: meta_graph_pb2.SaverDef | None = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = meta_graph_pb2.SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if write_version == meta_graph_pb2.SaverDef.V1:
            raise ValueError("Saver writes V2 checkpoints only; V1 ones can be read with the Restore op")
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or "
                "var_list=None."
            )
        self._var_list = var_list
        self._reshape, self._sharded, self._name = reshape, sharded, name
        self._restore_sequentially, self._allow_empty = restore_sequentially, allow_empty
        self._pad_step_number, self._save_relative_paths = pad_step_number, save_relative_paths
        self._filename = filename
        self._max_to_keep, self._keep_hours = max_to_keep or 0, keep_checkpoint_every_n_hours
        self._last_checkpoints: list[tuple[str, float]] = []
        # A save that began first is recorded first: else the newest checkpoint could be an old one.
        self._saving = threading.RLock()
        self._to_delete: list[tuple[str, float]] = []
        self._next_kept = checkpoints.now() + self._keep_hours * 3600
        self._is_empty = False
        self.saver_def = saver_def
        if saver_def is not None:
            self._max_to_keep, self._keep_hours = saver_def.max_to_keep, saver_def.keep_checkpoint_every_n_hours
        elif not defer_build:
            self.build()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_saving"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _saving=threading.RLock())

    def build(self) -> None:
        """Add the save and restore ops to the default graph, unless that was done."""
        if self.saver_def is not None or self._is_empty:
            return
        variables = all_saveable() if self._var_list is None else self._var_list
        if not variables:
            if not self._allow_empty:
                raise ValueError("No variables to save")
            self._is_empty = True
            return
        with context.get_default_graph().control_dependencies(None):
            self.saver_def = self._build(variables)

    def _build(self, variables: Any) -> meta_graph_pb2.SaverDef:
        with name_scope(self._name, "save"):
            saveables = saveables_of(variables)
            default = self._filename or "model"
            filename = apply_op("PlaceholderWithDefault", input=default, shape=[], name="filename")
            prefix = apply_op("PlaceholderWithDefault", input=filename, shape=[], name="Const")
            save = save_sharded(prefix, saveables) if self._sharded else save_together(prefix, saveables)
            restore = self._restore_op(prefix, saveables)
        return meta_graph_pb2.SaverDef(
            filename_tensor_name=prefix.name,
            save_tensor_name=save.name,
            restore_op_name=restore.name,
            max_to_keep=self._max_to_keep,
            sharded=self._sharded,
            keep_checkpoint_every_n_hours=self._keep_hours,
            version=meta_graph_pb2.SaverDef.V2,
        )

    def _restore_op(self, prefix: Tensor, saveables: list[SaveableObject]) -> Operation:
        graph = context.get_default_graph()
        previous: list[Operation] = []
        restored: list[Operation] = []
        for saveable in saveables:
            with graph.control_dependencies(previous if self._restore_sequentially else None):
                device = host_device(saveable.device)
                with graph.device(device):
                    tensors = apply_op_outputs(
                        "RestoreV2",
                        prefix=prefix,
                        tensor_names=[n for _, _, n in saveable.specs],
                        shape_and_slices=[s for _, s, _ in saveable.specs],
                        dtypes=[t.dtype.base_dtype for t, _, _ in saveable.specs],
                    )
                shapes = None
                if self._reshape:
                    shapes = [t.shape.as_list() for t, _, _ in saveable.specs]
                op = _operation_of(saveable.restore(tensors, shapes))
                restored.append(op)
                previous = [op]
        return group(*restored, name="restore_all")

    @property
    def _built(self) -> meta_graph_pb2.SaverDef:
        if self.saver_def is None:
            self.build()
        if self.saver_def is None:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        return self.saver_def

    @property
    def last_checkpoints(self) -> list[str]:
        """Prefixes of the checkpoints kept, oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        self._last_checkpoints = [(p, 0.0) for p in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Sequence[tuple[str, float]]) -> None:
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Take over checkpoints of an earlier run, so that they are deleted in their turn."""
        found = [p for p in checkpoint_paths if checkpoints.checkpoint_exists(p)]
        self._last_checkpoints = list(zip(found, checkpoints.get_checkpoint_mtimes(found)))

    def as_saver_def(self) -> meta_graph_pb2.SaverDef:
        return self._built

    def to_proto(self, export_scope: str | None = None) -> meta_graph_pb2.SaverDef | None:
        """Describe the saver; without the scope in its ops' names, or None where they are not in the scope."""
        if not export_scope:
            return self._built
        prefix = f"{export_scope}/"
        names = (self._built.filename_tensor_name, self._built.save_tensor_name, self._built.restore_op_name)
        if not all(name.startswith(prefix) for name in names):
            return None
        out = meta_graph_pb2.SaverDef()
        out.CopyFrom(self._built)
        out.filename_tensor_name, out.save_tensor_name, out.restore_op_name = (n[len(prefix) :] for n in names)
        return out

    @staticmethod
    def from_proto(saver_def: meta_graph_pb2.SaverDef, import_scope: str | None = None) -> Saver:
        if import_scope:
            scoped = meta_graph_pb2.SaverDef()
            scoped.CopyFrom(saver_def)
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(scoped, field, f"{import_scope}/{getattr(saver_def, field)}")
            saver_def = scoped
        return Saver(saver_def=saver_def)

    def save(
        self,
        sess: Any,
        save_path: str,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Write a checkpoint.

        Args:
            save_path: its prefix; "-STEP" is appended when `global_step` (a number, tensor or variable) is given.

        Returns:
            The prefix it was written under.

        Raises:
            ValueError: the parent folder does not exist, or `latest_filename` is the checkpoint's own name.
        """
        if os.path.split(latest_filename or "checkpoint")[0]:
            raise ValueError("'latest_filename' must not contain path components")
        with self._saving, span(Span.CHECKPOINT, "save"):
            prefix = os.fspath(save_path)
            if global_step is not None:
                step = int(global_step if isinstance(global_step, SupportsIndex) else sess.run(global_step))
                prefix = self._prefix(save_path, step)
                if os.path.basename(save_path) == (latest_filename or "checkpoint") and not self._sharded:
                    raise ValueError(
                        f"'latest_filename' collides with 'save_path': '{latest_filename}' and '{save_path}'"
                    )
            if self._is_empty:
                return None
            definition = self._built

            def run() -> Any:
                parked = transfer_states.park(sess)
                try:
                    return sess.run(definition.save_tensor_name, {definition.filename_tensor_name: prefix})
                finally:
                    transfer_states.clear(sess, parked)

            return self._save_by(
                run, sess, save_path, prefix, latest_filename, meta_graph_suffix, write_meta_graph, write_state
            )

    def _prefix(self, save_path: str, step: int) -> str:
        path = os.fspath(save_path)
        return f"{path}-{step:08d}" if self._pad_step_number else f"{path}-{step}"

    def _save_by(
        self,
        run: Callable[[], Any],
        sess: Any,
        save_path: str,
        prefix: str,
        latest_filename: str | None,
        meta_graph_suffix: str,
        write_meta_graph: bool,
        write_state: bool,
    ) -> str:
        """Have `run` write the tensors, then what belongs to them."""
        folder = Path(local_path(prefix)).parent
        try:
            written = run()
        except (FailedPreconditionError, NotFoundError) as e:
            if not folder.is_dir():
                raise ValueError(f"Parent directory of {save_path} doesn't exist, can't save.") from e
            raise
        written = written.decode() if isinstance(written, bytes) else str(written)
        if write_state:
            with self._saving:
                self._record(written, meta_graph_suffix)
                checkpoints._update(
                    str(folder),
                    written,
                    self.last_checkpoints,
                    latest_filename,
                    self._save_relative_paths,
                )
                self._delete_old(meta_graph_suffix)
        if write_meta_graph:
            export_meta_graph(f"{written}.{meta_graph_suffix}", graph=sess.graph, saver_def=self._built)
        return written

    def begin_save(
        self, sess: Any, save_path: str, global_step: int, write_meta_graph: bool = True
    ) -> Callable[[], str | None]:
        """Take a snapshot of the variables; what is returned writes it as `save` does, in any thread.

        The snapshot is no copy: a variable that is updated meanwhile gets other memory. Not in TF1.

        Raises:
            TypeError: `sess` is no session of this runtime.
        """
        if not isinstance(sess, BaseSession):
            raise TypeError(f"A snapshot is taken of a tf.Session, not of a {type(sess).__name__}")
        ops = self._save_ops(sess.graph)
        definition = self._built
        prefix = self._prefix(save_path, global_step)
        parked = transfer_states.park(sess)
        try:
            sess.run(ops, {definition.filename_tensor_name: SNAPSHOT + prefix})
        finally:
            transfer_states.clear(sess, parked)
        # The ops have their tensors; the variables are not to be read, and held, again.
        unread = {t: np.zeros(0, t.dtype.base_dtype.np) for op in ops for t in op.inputs[3:]}
        filename = sess.graph.get_tensor_by_name(definition.filename_tensor_name)

        def run() -> Any:
            return sess._run_with(definition.save_tensor_name, {filename: object_scalar(prefix.encode()), **unread})

        # Written while others save: a session that hangs must not keep those of the next one from saving.
        return lambda: self._save_by(run, sess, save_path, prefix, None, "meta", write_meta_graph, True)

    def size(self, graph: Graph) -> int:
        """Return how many bytes a checkpoint holds, as far as their shapes are known;
        0 where `begin_save` cannot be."""
        if self._is_empty:
            return 0
        tensors = [t for op in self._save_ops(graph) for t in op.inputs[3:]]
        return sum(
            (t.shape.num_elements() or 0) * t.dtype.base_dtype.np.itemsize
            for t in tensors
            if t.shape.is_fully_defined() and not t.dtype.base_dtype.is_object
        )

    def _save_ops(self, graph: Graph) -> list[Operation]:
        """Return the SaveV2 ops behind the save tensor."""
        seen: set[Operation] = set()
        stack = [graph.get_tensor_by_name(self._built.save_tensor_name).op]
        while stack:
            op = stack.pop()
            if op not in seen:
                seen.add(op)
                if op.type != "SaveV2":
                    stack += [t.op for t in op.inputs] + list(op.control_inputs)
        return sorted((op for op in seen if op.type == "SaveV2"), key=lambda op: op.name)

    def _record(self, path: str, suffix: str) -> None:
        self._last_checkpoints = [c for c in self._last_checkpoints if c[0] != path]
        self._last_checkpoints.append((path, checkpoints.now()))
        if self._max_to_keep and len(self._last_checkpoints) > self._max_to_keep:
            oldest = self._last_checkpoints.pop(0)
            if oldest[1] > self._next_kept:
                self._next_kept += self._keep_hours * 3600
            else:
                self._to_delete.append(oldest)

    def _delete_old(self, suffix: str) -> None:
        for path, _ in self._to_delete:
            checkpoints.remove_checkpoint(path, meta_graph_suffix=suffix)
        self._to_delete.clear()

    def restore(self, sess: Any, save_path: str | None) -> None:
        """Assign the variables from a checkpoint.

        Raises:
            ValueError: `save_path` is None or names no checkpoint.
            NotFoundError: the checkpoint lacks a variable. InvalidArgumentError: a shape or type differs.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fspath(save_path)
        if not checkpoints.checkpoint_exists(prefix) and not Path(local_path(prefix)).exists():
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        definition = self._built
        try:
            with span(Span.CHECKPOINT, "restore"):
                sess.run(definition.restore_op_name, {definition.filename_tensor_name: prefix})
        except NotFoundError as e:
            raise NotFoundError(
                "Restoring from checkpoint failed. This is most likely due to a Variable name or other graph key that "
                "is missing from the checkpoint. Please ensure that you have not altered the graph expected based on "
                f"the checkpoint. Original error:\n\n{e.message}",
                e.node,
            ) from e
        except InvalidArgumentError as e:
            raise InvalidArgumentError(
                "Restoring from checkpoint failed. This is most likely due to a mismatch between the current graph and "
                "the graph from the checkpoint. Please ensure that you have not altered the graph expected based on "
                f"the checkpoint. Original error:\n\n{e.message}",
                e.node,
            ) from e

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: list[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        return export_meta_graph(
            filename,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            graph=context.get_default_graph(),
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )


def _operation_of(item: Any) -> Operation:
    return item if isinstance(item, Operation) else item.op
