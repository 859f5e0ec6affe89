"""Variables that start from a checkpoint, and waiting for checkpoints."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import device
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.ops.array_ops import concat, reshape
from dtfctl.runtime.ops.init_ops import glorot_uniform_initializer
from dtfctl.runtime.ops.math_ops import cast, equal, reduce_sum
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.variable_collections import global_variables, local_variables, trainable_variables
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


class VocabInfo(NamedTuple):
    """How rows of a variable, or columns with `axis=1`, follow a vocabulary that differs from the checkpoint's.

    Args:
        new_vocab, old_vocab: files of a word a line.
        new_vocab_size, old_vocab_size: how many words of them count; all of the old ones where it is -1.
        num_oov_buckets: rows after those of the words.
        backup_initializer: of what the checkpoint does not have.
        axis: 0 or 1.
    """

    new_vocab: Any
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: Any
    old_vocab_size: int = -1
    backup_initializer: Any = None
    axis: int = 0


def warm_start(
    ckpt_to_initialize_from: str,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Any = None,
    var_name_to_prev_var_name: Any = None,
) -> None:
    """Have variables' initializers read a checkpoint.

    Args:
        ckpt_to_initialize_from: a checkpoint, or a folder whose newest is taken.
        vars_to_warm_start: a regular expression of trainable variables' names, a list of such for all variables,
            a list of variables, or None for those of `var_name_to_vocab_info`.
        var_name_to_vocab_info: VocabInfo by the names of variables.
        var_name_to_prev_var_name: other names in the checkpoint.

    Raises:
        ValueError: the checkpoint lacks a variable.
    """
    path = os.fspath(ckpt_to_initialize_from)
    path = (latest_checkpoint(path) or path) if os.path.isdir(path) else path
    renamed, words = dict(var_name_to_prev_var_name or {}), dict(var_name_to_vocab_info or {})
    known = _by_name()
    assigned = {}
    for variable in _chosen(vars_to_warm_start):
        info = variable._get_save_slice_info()
        name = info.full_name if info else variable.op.name
        if name not in words:
            assigned[renamed.get(name, name)] = name
    if assigned:
        init_from_checkpoint(path, assigned)
    for name, info in words.items():
        for variable in known.get(name, ()):
            _remap(variable, info, path, renamed.get(name, name))


def _remap(variable: Any, info: VocabInfo, path: str, tensor: str) -> None:
    """Have an initializer take rows, or columns, of a tensor in a checkpoint by their words.

    Raises:
        ValueError: the variable is cut into parts along its vocabulary, or has not one row for each word and bucket.
    """
    if info.axis not in (0, 1):
        raise ValueError(f"Axis should be either 0 or 1, given {info.axis}")
    rows, columns = variable.shape.as_list()
    size = (rows, columns)[info.axis]
    if size != info.new_vocab_size + info.num_oov_buckets:
        raise ValueError(
            f"{variable.op.name} has {size} along axis {info.axis}, its vocabulary {info.new_vocab_size} and "
            f"{info.num_oov_buckets} buckets: it cannot be warm-started"
        )
    with device("/cpu:0"):
        found, _ = make_op(
            "GenerateVocabRemapping",
            new_vocab_file=info.new_vocab,
            old_vocab_file=info.old_vocab,
            new_vocab_offset=0,
            num_new_vocab=info.new_vocab_size,
            old_vocab_size=info.old_vocab_size,
        ).outputs
        # Buckets are new words.
        remapping = concat([found, constant([-1] * info.num_oov_buckets, dtypes.int64, [info.num_oov_buckets])], 0)
        begin = info.backup_initializer or glorot_uniform_initializer()
        fill = reshape(begin([rows, columns], variable.dtype.base_dtype), [-1])
        nothing = constant([], dtypes.int64, [0])
        missing = reduce_sum(cast(equal(remapping, -1), dtypes.int32)) * (columns, rows)[info.axis]
        value = apply_op(
            "LoadAndRemapMatrix",
            ckpt_path=path,
            old_tensor_name=tensor,
            row_remapping=remapping if info.axis == 0 else constant(list(range(rows)), dtypes.int64),
            col_remapping=nothing if info.axis == 0 else remapping,
            initializing_values=fill[:missing],
            num_rows=rows,
            num_cols=columns,
        )
    value.set_shape(variable.shape)
    variable.initializer = variable.assign(value).op
    variable._initial_value = value


def _chosen(which: Any) -> list[Any]:
    if which is None:
        return []
    if isinstance(which, str):
        return [v for v in trainable_variables() if re.match(which, v.op.name)]
    found: list[Any] = []
    for one in which:
        named = [v for v in global_variables() if re.match(one, v.op.name)] if isinstance(one, str) else [one]
        found += [v for v in named if v not in found]
    return found
