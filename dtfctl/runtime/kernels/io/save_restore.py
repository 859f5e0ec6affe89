"""Kernels of the ops that save and restore checkpoints."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.checkpoint import parts
from dtfctl.runtime.checkpoint.blocks import LARGE
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import SNAPSHOT, BundleWriter, index_file
from dtfctl.runtime.checkpoint.merge import merge_bundles
from dtfctl.runtime.checkpoint.slice_table import SliceTableReader, SliceToSave, write_slice_table
from dtfctl.runtime.checkpoint.tensor_slice import TensorSlice, parse_shape_and_slice, shape_text
from dtfctl.runtime.framework.dtypes import WIRE_NAME, DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.arguments import texts_of
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory import shared_memory


def _one(value: Any, message: str) -> str:
    if value.size != 1:
        raise InvalidArgumentError(message.format(value.size))
    return texts_of(value)[0]


def _check_v2(prefix: Any, names: Any, specs: Any, tensors: int | None) -> None:
    if prefix.size != 1:
        raise InvalidArgumentError(f"Input prefix should have a single element, got {prefix.size} instead.")
    if names.ndim != 1 or specs.ndim != 1:
        raise InvalidArgumentError(
            f"Input tensor_names and shape_and_slices should be an 1-D tensors, got {shape_text(names.shape)} and "
            f"{shape_text(specs.shape)} instead."
        )
    if names.size != specs.size:
        raise InvalidArgumentError(
            f"tensor_names and shape_and_slices have different number of elements: {names.size} vs. {specs.size}"
        )
    if tensors is not None and names.size != tensors:
        raise InvalidArgumentError(f"Got {names.size} tensor names but {tensors} tensors.")


def _slice_to_save(spec: str, value: Any) -> tuple[tuple[int, ...], TensorSlice]:
    shape, piece, expected = parse_shape_and_slice(spec)
    if expected != value.shape:
        raise InvalidArgumentError(
            "Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
            f"{spec}, tensor: {shape_text(value.shape)}"
        )
    return shape, piece


class _Parts:
    """Folders into which a session's save has written parts: the session may still have them merged."""

    def __init__(self) -> None:
        self.folders: set[Path] = set()
        weakref.finalize(self, _let_go, self.folders)


def _let_go(folders: set[Path]) -> None:
    for folder in folders:
        parts.let_go(folder)


@register_kernel("SaveV2", blocking=True)
def save_v2(k: KernelBuild) -> Kernel:
    types = k.attr("dtypes")
    # The newest only: who takes another has given up the one before.
    snapshot: list[tuple[str, list[Any]]] = []
    written = _Parts()

    def run(prefix: Any, names: Any, specs: Any, *tensors: Any) -> None:
        _check_v2(prefix, names, specs, len(tensors))
        path = texts_of(prefix)[0]
        if path.startswith(SNAPSHOT):
            # What was there before lets go of its arrays first.
            snapshot.clear()
            snapshot.append((path.removeprefix(SNAPSHOT), [_kept(value) for value in tensors]))
            return
        values: Sequence[Any] = tensors
        begun = bool(snapshot) and snapshot[0][0] == path
        if begun:
            values = snapshot.pop()[1]
        folder = Path(local_path(path)).parent
        if parts.are_in(folder):
            written.folders.clear()
            written.folders.add(folder)
        with BundleWriter(path, in_background=begun) as writer:
            for name, spec, value, dtype in zip(texts_of(names), texts_of(specs), values, types):
                if spec:
                    shape, piece = _slice_to_save(spec, value)
                    writer.add_slice(name, shape, piece, value, dtype)
                else:
                    writer.add(name, value, dtype)

    return run


def _kept(value: Any) -> Any:
    """Keep a tensor as it is now: in a snapshot of its variable's where that gives one, else by the array itself.

    There is no copy: updates of few rows keep these in the snapshot, others write elsewhere while the array is held.
    """
    if value.nbytes < LARGE or not isinstance(value, np.ndarray):
        return value
    holder = shared_memory.holder_of(value)
    return holder.snapshot(value) if isinstance(holder, Variable) else value


@register_kernel("RestoreV2", blocking=True)
def restore_v2(k: KernelBuild) -> Kernel:
    types = k.attr("dtypes")

    def run(prefix: Any, names: Any, specs: Any) -> list[Any]:
        if names.size != len(types):
            raise InvalidArgumentError(f"Got {names.size} tensor names, but {len(types)} expected dtypes.")
        _check_v2(prefix, names, specs, None)
        path = texts_of(prefix)[0]
        wanted = list(zip(texts_of(names), texts_of(specs), types))
        if not Path(index_file(local_path(path))).exists():
            table = SliceTableReader(path)
            return [_restore_v1(table, *item) for item in wanted]
        reader = BundleReader(path)
        wrong = []
        for name, _, dtype in wanted:
            stored, _ = reader.dtype_and_shape(name)
            if stored is not dtype:
                wrong.append(
                    f"tensor_name = {name}; expected dtype {WIRE_NAME[dtype]} does not equal original dtype "
                    f"{WIRE_NAME[stored]}"
                )
        if wrong:
            raise InvalidArgumentError("\n".join(wrong))
        begun = [_begin_restore_v2(reader, name, spec) for name, spec, _ in wanted]
        return [end() for end in begun]

    return run


def _begin_restore_v2(reader: BundleReader, name: str, spec: str) -> Callable[[], Any]:
    if not spec:
        return reader.begin_map(name)
    shape, piece, _ = parse_shape_and_slice(spec)
    _, stored = reader.dtype_and_shape(name)
    if stored != shape:
        raise InvalidArgumentError(
            f"tensor_name = {name}; shape in shape_and_slice spec {shape_text(shape)} does not match the shape stored "
            f"in checkpoint: {shape_text(stored)}"
        )
    return lambda: reader.read_slice(name, piece)


def _restore_v1(reader: SliceTableReader, name: str, spec: str, dtype: DType) -> Any:
    stored, shape = reader.dtype_and_shape(name)
    if stored is not dtype:
        raise InvalidArgumentError(
            f"Expected to restore a tensor of type {WIRE_NAME[dtype]}, got a tensor of type {WIRE_NAME[stored]} "
            f"instead: tensor_name = {name}"
        )
    if not spec:
        return reader.read(name)
    parsed, piece, _ = parse_shape_and_slice(spec)
    if parsed != shape:
        raise InvalidArgumentError(
            "Shape in shape_and_slice spec does not match the shape in the save file: "
            f"{shape_text(parsed)}, save file shape: {shape_text(shape)}"
        )
    return reader.read(name, piece)


@register_kernel(("Save", "SaveSlices"), blocking=True)
def save_v1(k: KernelBuild) -> Kernel:
    types, sliced = k.attr("T"), k.node.op == "SaveSlices"

    def run(filename: Any, names: Any, *rest: Any) -> None:
        path = _one(filename, "Input 0 (filename) must be a string scalar; got a tensor of {}elements")
        tensors = rest[1:] if sliced else rest
        specs = texts_of(rest[0]) if sliced else [""] * len(tensors)
        if sliced and len(specs) != names.size:
            raise InvalidArgumentError(
                f"Expected {names.size} elements for the tensor shapes and slices but got {len(specs)}"
            )
        fixed = 3 if sliced else 2
        if names.size != len(tensors):
            raise InvalidArgumentError(
                f"Expected totally {names.size + fixed} inputs as input #1 (which is a string tensor of saved names) "
                f"contains {names.size} names, but received {len(tensors) + fixed} inputs"
            )
        slices = []
        for name, spec, value, dtype in zip(texts_of(names), specs, tensors, types):
            shape, piece = _slice_to_save(spec, value) if spec else (value.shape, TensorSlice.full(value.ndim))
            slices.append(SliceToSave(name, shape, piece, value, dtype))
        write_slice_table(path, slices)

    return run


@register_kernel(("Restore", "RestoreSlice"), blocking=True)
def restore_v1(k: KernelBuild) -> Kernel:
    dtype = k.dtype("dt")

    def run(pattern: Any, name: Any, spec: Any = None) -> Any:
        path = _one(pattern, "Input 0 (file_pattern) must be a string scalar; got a tensor of {} elements")
        tensor_name = _one(name, "Input 1 (tensor_name) must have one element; got {}")
        return _restore_v1(SliceTableReader(path), tensor_name, "" if spec is None else texts_of(spec)[0], dtype)

    return run


@register_kernel("MergeV2Checkpoints", blocking=True)
def merge_v2_checkpoints(k: KernelBuild) -> Kernel:
    delete, allow_missing = k.attr("delete_old_dirs"), k.attr("allow_missing_files")

    def run(prefixes: Any, destination: Any) -> None:
        if prefixes.ndim != 1:
            raise InvalidArgumentError(
                f"Input checkpoint_prefixes should be an 1-D tensor, got {shape_text(prefixes.shape)} instead."
            )
        if destination.ndim != 0:
            raise InvalidArgumentError(
                f"Input destination_prefix should be a scalar tensor, got {shape_text(destination.shape)} instead."
            )
        merged = local_path(texts_of(destination)[0])
        sources = [local_path(prefix) for prefix in texts_of(prefixes)]
        merge_bundles(sources, merged, allow_missing)
        if delete:
            for folder in {Path(p).parent for p in sources} - {Path(merged).parent}:
                parts.let_go(folder)  # others may still keep files there; their folder then stays

    return run


@register_kernel("ShardedFilename")
def sharded_filename(k: KernelBuild) -> Kernel:
    def run(basename: Any, shard: Any, shards: Any) -> Any:
        for name, array in (("basename", basename), ("shard", shard), ("num_shards", shards)):
            if array.ndim:
                raise InvalidArgumentError(f"{name} must be a scalar, got shape {list(array.shape)}")
        return object_scalar(basename[()] + f"-{int(shard):05d}-of-{int(shards):05d}".encode())

    return run


@register_kernel("ShardedFilespec")
def sharded_filespec(k: KernelBuild) -> Kernel:
    def run(basename: Any, shards: Any) -> Any:
        for name, array in (("basename", basename), ("num_shards", shards)):
            if array.ndim:
                raise InvalidArgumentError(f"{name} must be a scalar, got shape {list(array.shape)}")
        return object_scalar(basename[()] + f"-?????-of-{int(shards):05d}".encode())

    return run
