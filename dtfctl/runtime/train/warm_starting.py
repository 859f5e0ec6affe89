"""Variables that start from a checkpoint, and waiting for checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import device
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.variable_collections import global_variables, local_variables
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.checkpoint_management import latest_checkpoint
from dtfctl.runtime.train.checkpoint_utils import load_checkpoint
from dtfctl.runtime.train.saveables import saveables_of


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
    """Have variables' initializers read a checkpoint.

    Args:
        ckpt_dir_or_file: a checkpoint, or a folder whose newest is taken.
        assignment_map: what is in the checkpoint, and what it is for: `"name": variable` (or its name, or a list of its
            parts), or `"scope/": "other_scope/"`; "/" is everything.

    Raises:
        ValueError: the checkpoint has no such tensor, a shape differs, or there is no such variable.
    """
    path = os.fspath(ckpt_dir_or_file)
    if os.path.isdir(path):
        path = latest_checkpoint(path) or path
    shapes = load_checkpoint(path).get_variable_to_shape_map()
    known = _by_name()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for tensor, target in sorted(pairs, key=lambda p: p[0]):
        if isinstance(target, PartitionedVariable):
            target = list(target)
        if isinstance(target, (Variable, list, tuple)):
            _start(target, path, tensor, shapes)
        elif target in known:
            _start(known[target], path, tensor, shapes)
        else:
            _start_scope(tensor, target, path, shapes, known)


def _by_name() -> dict[str, list[Any]]:
    """Return the parts of each variable by its full name."""
    found: dict[str, list[Any]] = {}
    for variable in [*global_variables(), *local_variables()]:
        info = variable._get_save_slice_info()
        found.setdefault(info.full_name if info else variable.op.name, []).append(variable)
    return found


def _start_scope(
    tensor_scope: str, scope: str, path: str, shapes: Mapping[str, list[int]], known: Mapping[str, list[Any]]
) -> None:
    if not tensor_scope.endswith("/"):
        raise ValueError(
            f"There is no variable {scope!r}, and {tensor_scope!r} is no scope: to assign scopes, end both with '/'"
        )
    prefix = "" if scope == "/" else scope if scope.endswith("/") else f"{scope}/"
    wanted = [name for name in sorted(known) if name.startswith(prefix)]
    if not wanted:
        raise ValueError(f"There is no variable in the scope {scope!r}")
    for name in wanted:
        _start(known[name], path, ("" if tensor_scope == "/" else tensor_scope) + name[len(prefix) :], shapes)


def _start(target: Any, path: str, tensor: str, shapes: Mapping[str, list[int]]) -> None:
    parts = [target] if isinstance(target, Variable) else list(target)
    if tensor not in shapes:
        raise ValueError(f"Tensor {tensor} (for {parts[0].op.name}) is not found in {path} checkpoint {dict(shapes)}")
    for part in parts:
        info = part._get_save_slice_info()
        whole = list(info.full_shape) if info else part.shape
        if list(shapes[tensor]) != list(whole) and not (not info and part.shape.is_compatible_with(shapes[tensor])):
            raise ValueError(
                f"Shape of variable {part.name} ({part.shape}) doesn't match with shape of tensor {tensor} "
                f"({shapes[tensor]}) from checkpoint reader."
            )
        with part.graph.as_default(), device(part.device), device("/cpu:0"):
            restored = make_op(
                "RestoreV2",
                "checkpoint_initializer",
                prefix=constant(path, dtypes.string),
                tensor_names=constant([tensor], dtypes.string),
                shape_and_slices=constant([info.spec if info else ""], dtypes.string),
                dtypes=[part.dtype.base_dtype],
            ).outputs[0]
        restored.set_shape(part.shape)
        with part.graph.as_default():
            part.initializer = saveables_of({tensor: part})[0].restore([restored], None)
        part._initial_value = restored


def checkpoints_iterator(
    checkpoint_dir: str,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yield the newest checkpoint of a folder, again and again as there is a newer one.

    Args:
        min_interval_secs: at least so long from one to the next.
        timeout: how long to wait for one; for ever when None.
        timeout_fn: called after each wait; True ends the iteration. Without it a timeout ends it.
    """
    last: str | None = None
    while True:
        newest = _wait(checkpoint_dir, last, timeout)
        if newest is not None:
            began = time.monotonic()
            last = newest
            yield newest
            time.sleep(max(0.0, began + min_interval_secs - time.monotonic()))
        elif timeout_fn is None:
            return
        if timeout_fn is not None and timeout_fn():
            return


def _wait(folder: str, last: str | None, timeout: float | None) -> str | None:
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        newest = latest_checkpoint(folder)
        if newest is not None and newest != last:
            return newest
        left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
        if left <= 0:
            return None
        time.sleep(left)
