"""A version of a model on one task: its graph, its variables there, and its steps."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dtfctl.runtime as tf
from dtfctl.protocol.graph_pb2 import GraphDef
from dtfctl.protocol.meta_graph_pb2 import MetaGraphDef, SignatureDef
from dtfctl.runtime.export.loader import load_meta_graph, parse_saved_model
from dtfctl.runtime.framework.errors import OpError
from dtfctl.serve import signatures
from dtfctl.serve.signatures import Signature
from dtfctl.serve.sources import NoModel, Source
from dtfctl.values import value

log = logging.getLogger(__name__)

_numbers = itertools.count(1)
_HANDLES = ("VarHandleOp", "HashTableV2", "MutableHashTableV2", "MutableDenseHashTableV2")
_REFERENCES = ("Variable", "VariableV2")


@value
class Names:
    """How a graph without signatures is used; see `signatures.of_graph`."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ("serve",)
    """The tags of the graph that is meant, of a SavedModel."""


class LoadedModel:
    """A version on one task, until `close`. Any thread; how many steps run at once is for its caller to say.

    Attributes:
        task: the device that computes, "/job:worker/task:0"; "" for this process.
        definitions: the signatures as the model has them.
        signatures: those that can be served.
    """

    def __init__(self, source: Source, names: Names, target: str, task: str) -> None:
        """Load it.

        Raises:
            NoModel: it is not what it should be. OpError, OSError: it cannot be read, or the task is not there.
        """
        self.task = task
        self.definitions: dict[str, SignatureDef] = {}
        self._steps: dict[tuple[str, tuple[str, ...]], Callable[..., Any]] = {}
        self._lock = threading.Lock()
        graph = tf.Graph()
        config = tf.ConfigProto(allow_soft_placement=True, device_filters=[task] if task else [])
        self._session = tf.Session(target, graph=graph, config=config)
        try:
            # State lies on a task by the names of its container and its own.
            container = f"served-{os.getpid()}-{next(_numbers)}"
            with graph.as_default(), tf.device(task or None):
                self.definitions = dict(_LOADERS[source.kind](self._session, source, names, container))
                self._free = _freeing(graph)
        except BaseException:
            self._session.close()
            raise
        self.signatures = signatures.of_definitions(self.definitions)
        if not self.signatures:
            self.close()
            raise NoModel(f"{source.path} has no signature that could be served")

    def run(
        self, signature: Signature, outputs: tuple[str, ...], values: Mapping[str, np.ndarray[Any, Any]]
    ) -> list[np.ndarray[Any, Any]]:
        """Compute outputs, given by their names, of checked inputs.

        Raises:
            OpError.
        """
        step = self._steps.get((signature.name, outputs))
        if step is None:
            tensors = {port.alias: port.tensor for port in signature.outputs}
            with self._lock:
                step = self._session.make_callable(
                    [tensors[alias] for alias in outputs], [port.tensor for port in signature.inputs]
                )
                self._steps[signature.name, outputs] = step
        return list(step(*(values[port.alias] for port in signature.inputs)))

    def close(self) -> None:
        """Give the task's memory back. A task that is gone has done so."""
        with contextlib.suppress(OpError, RuntimeError):
            if self._free:
                self._session.run(self._free)
        with contextlib.suppress(OpError, RuntimeError):
            self._session.close()


def _freeing(graph: Any) -> list[Any]:
    freeing = []
    for op in graph.get_operations():
        with tf.device(op.device or None):
            if op.type in _HANDLES:
                freeing.append(tf.raw_ops.DestroyResourceOp(resource=op.outputs[0], ignore_lookup_error=True))
            elif op.type in _REFERENCES:
                empty = tf.zeros([0], op.outputs[0].dtype.base_dtype)
                freeing.append(tf.raw_ops.Assign(ref=op.outputs[0], value=empty, validate_shape=False).op)
    return freeing


Loader = Callable[[Any, Source, Names, str], Mapping[str, SignatureDef]]


def _load_saved_model(session: Any, source: Source, names: Names, container: str) -> Mapping[str, SignatureDef]:
    wanted = set(names.tags)
    for meta in parse_saved_model(source.path).meta_graphs:
        if set(meta.meta_info_def.tags) == wanted:
            signatures.strip_devices(meta.graph_def, container)
            return dict(load_meta_graph(session, meta, source.path).signature_def)
    raise NoModel(f"{source.path} has no graph with the tags {', '.join(sorted(wanted))}: name others by --tags")


def _load_frozen(session: Any, source: Source, names: Names, container: str) -> Mapping[str, SignatureDef]:
    graph = _parse(GraphDef, source.path)
    signatures.strip_devices(graph, container)
    tf.import_graph_def(graph, name="")
    return signatures.of_graph(session.graph, names.inputs, names.outputs)


def _load_checkpoint(session: Any, source: Source, names: Names, container: str) -> Mapping[str, SignatureDef]:
    meta = _parse(MetaGraphDef, f"{source.path}.meta")
    signatures.strip_devices(meta.graph_def, container)
    saver = tf.train.import_meta_graph(meta)
    if saver is not None:
        saver.restore(session, source.path)
    if meta.signature_def and not names.outputs:
        return dict(meta.signature_def)
    if not names.outputs:
        raise NoModel("the graph of a checkpoint trains, too: name what it is asked for by --outputs (and --inputs)")
    return signatures.of_graph(session.graph, names.inputs, names.outputs)


def _parse(kind: Any, path: str) -> Any:
    try:
        return kind.FromString(Path(path).read_bytes())
    except Exception as error:  # protobuf's own, which has no public base
        if isinstance(error, OSError):
            raise
        raise NoModel(f"{path} is no {kind.DESCRIPTOR.name}: {error}") from None


_LOADERS: Mapping[str, Loader] = {
    "saved_model": _load_saved_model,
    "frozen": _load_frozen,
    "checkpoint": _load_checkpoint,
}


def first_inputs(signature: Signature, rows: int) -> dict[str, np.ndarray[Any, Any]] | None:
    """Make inputs of zeros; None where their shapes or types do not say what would fit."""
    made: dict[str, np.ndarray[Any, Any]] = {}
    for port in signature.inputs:
        if port.shape is None or any(size is None for size in port.shape[1:]):
            return None
        kind = np.dtype(port.dtype.as_numpy_dtype)
        if kind.hasobject:
            return None
        shape: Sequence[int] = [rows if size is None else size for size in port.shape]
        made[port.alias] = np.zeros(shape, kind)
    return made
