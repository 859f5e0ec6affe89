"""The `checkpoint` file of a folder: which checkpoints it holds and which is the newest."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from dtfctl import copied
from dtfctl.protocol import meta_graph_pb2
from dtfctl.runtime.checkpoint.atomic import atomic_file
from dtfctl.runtime.framework.local_path import local_path

CheckpointState = meta_graph_pb2.CheckpointState
COPY_S = 20.0
"""A checkpoint that has not come from another host so long after it was written is passed over."""


def _state_file(save_dir: str, latest_filename: str | None) -> Path:
    return Path(local_path(save_dir)) / (latest_filename or "checkpoint")


def generate_checkpoint_state_proto(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """Return the state with the newest checkpoint last; relative folders give relative paths."""
    paths = list(all_model_checkpoint_paths or [])
    if model_checkpoint_path not in paths:
        paths.append(model_checkpoint_path)
    stamps = list(all_model_checkpoint_timestamps or [])
    if stamps and len(stamps) != len(paths):
        raise ValueError("Checkpoint timestamps, if provided, must match checkpoint paths one to one")
    if not os.path.isabs(local_path(save_dir)):
        paths = [p if os.path.isabs(local_path(p)) else os.path.relpath(p, save_dir) for p in paths]
        if not os.path.isabs(local_path(model_checkpoint_path)):
            model_checkpoint_path = os.path.relpath(model_checkpoint_path, save_dir)
    state = CheckpointState(model_checkpoint_path=model_checkpoint_path, all_model_checkpoint_paths=paths)
    state.all_model_checkpoint_timestamps.extend(stamps)
    if last_preserved_timestamp is not None:
        state.last_preserved_timestamp = last_preserved_timestamp
    return state


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the `checkpoint` file, atomically."""
    _update(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths,
        latest_filename,
        False,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )


def _update(
    save_dir: str,
    model_checkpoint_path: str,
    all_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    save_relative_paths: bool = False,
    stamps: Sequence[float] | None = None,
    preserved: float | None = None,
) -> None:
    target = _state_file(save_dir, latest_filename)
    if save_relative_paths:

        def relative(path: str) -> str:
            return os.path.relpath(path, save_dir) if os.path.isabs(path) == os.path.isabs(save_dir) else path

        state = CheckpointState(
            model_checkpoint_path=relative(model_checkpoint_path),
            all_model_checkpoint_paths=[relative(p) for p in all_paths or [model_checkpoint_path]],
        )
        state.all_model_checkpoint_timestamps.extend(stamps or [])
        if preserved is not None:
            state.last_preserved_timestamp = preserved
    else:
        state = generate_checkpoint_state_proto(save_dir, model_checkpoint_path, all_paths, stamps, preserved)
    if str(target) == model_checkpoint_path:
        raise RuntimeError(f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.")
    write_atomically(target, text_format.MessageToString(state).encode())


def write_atomically(target: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, also after a crash.

    Raises:
        OpError: the file system refuses.
    """
    with atomic_file(str(target)) as file:
        file.write(content)


def get_checkpoint_state(checkpoint_dir: str, latest_filename: str | None = None) -> Any:
    """Return the state of a folder with full paths; None when there is none, or it cannot be read as one."""
    path = _state_file(checkpoint_dir, latest_filename)
    try:
        state = text_format.Parse(path.read_text(), CheckpointState())
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, text_format.ParseError):
        return None
    if not state.model_checkpoint_path:
        return None

    def full(p: str) -> str:
        return p if os.path.isabs(local_path(p)) else os.path.join(checkpoint_dir, p)

    state.model_checkpoint_path = full(state.model_checkpoint_path)
    paths = [full(p) for p in state.all_model_checkpoint_paths]
    del state.all_model_checkpoint_paths[:]
    state.all_model_checkpoint_paths.extend(paths)
    return state


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> str | None:
    """Prefix of the newest complete checkpoint in a folder, or None.

    One whose files are missing (deleted, or never finished) is passed over for the next older one. In a folder that
    hosts keep alike, one that was just written elsewhere is on its way: then this waits for it.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if (Path(local_path(checkpoint_dir)) / copied.OWN).is_dir():
        _wait_for_copy(_state_file(checkpoint_dir, latest_filename), state.model_checkpoint_path)
    for path in [state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths)]:
        if checkpoint_exists(path):
            return str(path)
    return None


def _wait_for_copy(state_file: Path, prefix: str) -> None:
    """Wait until the checkpoint is here, or comes no more.

    That is so when this host knows of all that others wrote before the folder's state was written: then it was lost
    with its host. Where nobody keeps that moment, it is so some time after the checkpoint was written.
    """
    deadline = time.monotonic() + COPY_S
    known_until = state_file.parent / copied.OWN / copied.KNOWN_UNTIL
    while not checkpoint_exists(prefix) and time.monotonic() < deadline:
        try:
            written = state_file.stat().st_mtime
        except FileNotFoundError:
            return
        if time.time() - written > COPY_S or _mtime(known_until) > written:
            return
        time.sleep(0.05)


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Tell whether the checkpoint's index file is there, which is written last."""
    return Path(local_path(f"{checkpoint_prefix}.index")).exists()


def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str]) -> list[float]:
    """Times of the checkpoints' index files; those that are missing are left out."""
    return [Path(local_path(f"{p}.index")).stat().st_mtime for p in checkpoint_prefixes if checkpoint_exists(p)]


def remove_checkpoint(
    checkpoint_prefix: str, checkpoint_format_version: int = 2, meta_graph_suffix: str = "meta"
) -> None:
    """Delete all files of a checkpoint: the index first, so that what is left is never taken for a whole one.

    Raises:
        ValueError: the format is that of TensorFlow's first releases.
    """
    if checkpoint_format_version != 2:
        raise ValueError("only checkpoints of version 2 are known: delete the file of another yourself")
    checkpoint_prefix = local_path(checkpoint_prefix)
    prefix = Path(checkpoint_prefix)
    Path(f"{checkpoint_prefix}.index").unlink(missing_ok=True)
    for shard in prefix.parent.glob(f"{prefix.name}.data-?????-of-?????"):
        shard.unlink(missing_ok=True)
    Path(f"{checkpoint_prefix}.{meta_graph_suffix}").unlink(missing_ok=True)


def now() -> float:
    return time.time()
