"""python -m dtfctl.checkpoint_files: list checkpoints, show one, compare two, or write one in another format.

Started by the command `checkpoint`. It reads what to do from its input, as JSON, and says {"found": ...} or
{"error": TEXT, "hint": TEXT} on one line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dtfctl.protocol.trackable_object_graph_pb2 import TrackableObjectGraph
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter
from dtfctl.runtime.checkpoint.comparing import differences, size_of, statistics
from dtfctl.runtime.checkpoint.safetensors_file import ENDING, SafetensorsReader, TensorSource, write_safetensors
from dtfctl.runtime.framework.errors import (
    AlreadyExistsError,
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from dtfctl.runtime.train.checkpoint_management import checkpoint_exists, latest_checkpoint
from dtfctl.runtime.train.object_graph import GRAPH_KEY

Asked = Mapping[str, Any]
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
SAVES = f"save_counter{VALUE}"
"""How often a Checkpoint was saved."""


def main() -> int:
    asked: Asked = json.load(sys.stdin)
    verbs: dict[str, Callable[[Asked], Any]] = {"ls": _list, "show": _show, "diff": _diff, "convert": _convert}
    try:
        found = {"found": verbs[asked["verb"]](asked)}
    except OpError as e:
        found = {"error": e.message, "missing": isinstance(e, NotFoundError)}
    except OSError as e:
        found = {"error": f"{e.filename}: {e.strerror}", "missing": isinstance(e, FileNotFoundError)}
    print(json.dumps(found))
    return 0


def _prefix(path: str) -> str:
    """Find the checkpoint that a path means: itself, the newest in a folder, or the one that a file belongs to."""
    if os.path.isdir(path):
        newest = latest_checkpoint(path)
        if newest is None:
            raise NotFoundError(
                f"{path} has no file `checkpoint` that names one; `dtfctl checkpoint ls {path}` lists what is there"
            )
        return newest
    if path.endswith(".index") and os.path.exists(path):
        return path.removesuffix(".index")
    stem, dash, _ = path.rpartition(".data-")
    return stem if dash and os.path.exists(path) else path


def _open(path: str) -> tuple[str, TensorSource]:
    if path.endswith(ENDING) and not checkpoint_exists(path):
        return path, SafetensorsReader(path)
    prefix = _prefix(path)
    if not checkpoint_exists(prefix):
        raise NotFoundError(f"{path}: there is no such checkpoint, folder of checkpoints or {ENDING} file")
    return prefix, BundleReader(prefix)


def _list(asked: Asked) -> list[dict[str, Any]]:
    folder = Path(asked["path"])
    if not folder.is_dir():
        folder.stat()
        raise InvalidArgumentError(f"{folder} is no folder; `dtfctl checkpoint show {folder}` shows a checkpoint")
    newest = latest_checkpoint(str(folder))
    paths = [str(path).removesuffix(".index") for path in folder.glob("*.index")]
    paths += [str(path) for path in folder.glob(f"*{ENDING}")]
    found = [_listed(path, newest is not None and os.path.abspath(newest) == os.path.abspath(path)) for path in paths]
    return sorted(found, key=lambda item: (item["saved"], item["step"] or 0, item["path"]))


def _listed(path: str, is_newest: bool) -> dict[str, Any]:
    files = [Path(path)] if path.endswith(ENDING) else _files_of(path)
    item: dict[str, Any] = {
        "path": path,
        "step": None,
        "saved": max(file.stat().st_mtime for file in files),
        "bytes": sum(file.stat().st_size for file in files),
        "tensors": None,
        "newest": is_newest,
        "problem": "",
    }
    try:
        _, source = _open(path)
        item["tensors"] = len(source.names())
        item["step"] = _step(path, source)
        if isinstance(source, BundleReader) and len(files) != source.header.num_shards + 1:
            item["problem"] = f"{len(files) - 1} of {source.header.num_shards} data files are there"
    except OpError as e:
        item["problem"] = e.message
    return item


def _files_of(prefix: str) -> list[Path]:
    path = Path(prefix)
    return [Path(f"{prefix}.index"), *sorted(path.parent.glob(f"{path.name}.data-?????-of-?????"))]


def _step(path: str, source: TensorSource) -> int | None:
    """Read the step of a checkpoint: its variable `global_step` or `step`, else the number that its name ends in.

    A CheckpointManager ends names in how often it has saved, which says nothing of steps.
    """
    names = source.names()
    for name in _step_names(source):
        if name in names:
            try:
                return int(source.read(name))
            except (OpError, TypeError, ValueError):
                return None
    _, dash, number = path.removesuffix(ENDING).rpartition("-")
    if not dash or not number.isdecimal():
        return None
    return None if SAVES in names and int(source.read(SAVES)) == int(number) else int(number)


def _step_names(source: TensorSource) -> Iterator[str]:
    """Name what may be the step: a Saver's `global_step`, or that under any name, or `step`, of a Checkpoint."""
    yield "global_step"
    if GRAPH_KEY in source.names():
        for node in TrackableObjectGraph.FromString(source.read(GRAPH_KEY).item()).nodes:
            yield from (kept.checkpoint_key for kept in node.attributes if kept.full_name == "global_step")
    yield f"step{VALUE}"


def _chosen(source: TensorSource, only: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """Choose names by patterns.

    Raises:
        NotFoundError: one fits no name.
    """
    names = source.names()
    for pattern in (*only, *without):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise NotFoundError(f"No tensor's name fits '{pattern}'")
    return [
        name
        for name in names
        if (not only or any(fnmatchcase(name, p) for p in only)) and not any(fnmatchcase(name, p) for p in without)
    ]


def _show(asked: Asked) -> dict[str, Any]:
    path, source = _open(asked["path"])
    tensors = []
    for name in _chosen(source, asked["names"]):
        kind, shape = source.dtype_and_shape(name)
        item: dict[str, Any] = {
            "name": name,
            "type": kind.name,
            "shape": list(shape),
            "bytes": size_of(kind, shape),
        }
        if asked["names"]:
            item |= statistics(source.read(name))
        tensors.append(item)
    return {"path": path, "step": _step(path, source), "tensors": tensors}


def _diff(asked: Asked) -> dict[str, Any]:
    (first_path, first), (second_path, second) = _open(asked["first"]), _open(asked["second"])
    found = [vars(item) for item in differences(first, second, asked["rtol"], asked["atol"])]
    return {"first": first_path, "second": second_path, "compared": len(first.names()), "differences": found}


def _convert(asked: Asked) -> dict[str, Any]:
    path, source = _open(asked["path"])
    to: str = asked["to"]
    names = _chosen(source, asked["only"], asked["without"])
    is_taken = os.path.exists(to) if to.endswith(ENDING) else checkpoint_exists(to)
    if is_taken and not asked["force"]:
        raise AlreadyExistsError(f"{to} is there already; --force replaces it")
    if os.path.isdir(to):
        raise InvalidArgumentError(f"{to} is a folder; give the prefix of a new checkpoint, such as {to}/model.ckpt")
    if not os.path.isdir(os.path.dirname(os.path.abspath(to))):
        raise NotFoundError(f"There is no folder {os.path.dirname(to)}")
    if to.endswith(ENDING):
        write_safetensors(to, source, names)
    else:
        with BundleWriter(to) as writer:
            for name, value in _values(source, names):
                writer.add(name, value, source.dtype_and_shape(name)[0])
    return {"from": path, "to": to, "tensors": len(names)}


def _values(source: TensorSource, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for name in names:
        if source.dtype_and_shape(name)[0].kind == "resource":
            raise DataLossError(f"'{name}' is a handle, which means nothing outside of its process")
        yield name, source.read(name)


if __name__ == "__main__":
    sys.exit(main())
