"""Merging the bundles that several tasks wrote into one checkpoint (MergeV2Checkpoints)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtfctl import copied
from dtfctl.durable import sync_folder
from dtfctl.protocol import tensor_bundle_pb2
from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import data_file, index_file, write_index
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.framework.local_path import local_path


def merge_bundles(prefixes: Sequence[str], merged: str, allow_missing_files: bool = False) -> None:
    """Rename the data files of `prefixes` to shards of `merged` and write one index for all.

    Raises:
        InvalidArgumentError: a tensor is in two of them, or one does not exist.
        OpError: the file system refuses.
    """
    entries: dict[bytes, tensor_bundle_pb2.BundleEntryProto] = {}
    renames: list[str] = []
    found: list[str] = []
    merged = local_path(merged)
    for prefix in map(local_path, prefixes):
        if not Path(index_file(prefix)).exists():
            if allow_missing_files:
                continue
            raise InvalidArgumentError(f"allow_missing_files was set to false and {prefix} did not exist.")
        found.append(prefix)
        _merge_one(BundleReader(prefix), entries, renames)
    if not found:
        raise InvalidArgumentError("At least one prefix checkpoint file must exist, but none existed.")
    try:
        Path(merged).parent.mkdir(parents=True, exist_ok=True)
        for shard, source in enumerate(renames):
            target = data_file(merged, shard, len(renames))
            if Path(source).exists() or not _may_be_away(target):
                Path(source).replace(target)
        sync_folder(Path(merged).parent)
    except OSError as e:
        raise os_error(e) from e
    write_index(merged, entries, len(renames))
    for prefix in found:
        if prefix != merged:
            Path(index_file(prefix)).unlink(missing_ok=True)


def _may_be_away(target: str) -> bool:
    """Tell whether data that are not here have been renamed by another task already, or will be, on another host."""
    return Path(target).exists() or (Path(target).parent / copied.OWN).is_dir()


def _merge_one(
    reader: BundleReader, entries: dict[bytes, tensor_bundle_pb2.BundleEntryProto], renames: list[str]
) -> None:
    shards: dict[int, int] = {}
    for key, entry in reader.entries():
        known = entries.get(key)
        shown = key.decode(errors="replace")
        if known is not None and not entry.slices:
            raise InvalidArgumentError(
                f"Duplicate tensor keyed by {shown} encountered, when merging prefix: {reader.prefix}"
            )
        if known is not None:
            if not known.slices:
                raise InternalError(
                    f"Duplicate tensor keyed by {shown}; attempting to merge in a non-slice bundle entry"
                )
            known.slices.extend(entry.slices)
            continue
        if not entry.slices:
            if entry.shard_id not in shards:
                shards[entry.shard_id] = len(renames)
                renames.append(data_file(reader.prefix, entry.shard_id, reader.header.num_shards))
            entry.shard_id = shards[entry.shard_id]
        entries[key] = entry
    # Shards that hold no tensor are not carried over.
    for shard in range(reader.header.num_shards):
        if shard not in shards:
            Path(data_file(reader.prefix, shard, reader.header.num_shards)).unlink(missing_ok=True)
