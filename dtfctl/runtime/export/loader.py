"""Reading SavedModels, TensorFlow's own too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from dtfctl.protocol.meta_graph_pb2 import AssetFileDef, MetaGraphDef, SavedModel
from dtfctl.runtime.export import constants
from dtfctl.runtime.framework.graph_keys import get_collection
from dtfctl.runtime.train.meta_graph_import import import_meta_graph

FilePath: TypeAlias = str | bytes | os.PathLike[str]


def maybe_saved_model_directory(export_dir: FilePath) -> bool:
    """Tell whether a folder has a file of a SavedModel's name."""
    names = (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT)
    return any((Path(os.fsdecode(export_dir)) / name).exists() for name in names)


contains_saved_model = maybe_saved_model_directory


def parse_saved_model(export_dir: FilePath) -> SavedModel:
    """Read the SavedModel message of a folder.

    Raises:
        OSError: there is none, or it cannot be read as one.
    """
    folder = Path(os.fsdecode(export_dir))
    binary, text = folder / constants.SAVED_MODEL_FILENAME_PB, folder / constants.SAVED_MODEL_FILENAME_PBTXT
    try:
        if binary.exists():
            return SavedModel.FromString(binary.read_bytes())
        if text.exists():
            return text_format.Parse(text.read_text(), SavedModel())
    except (DecodeError, text_format.ParseError) as e:
        raise OSError(f"Cannot parse the SavedModel in {folder}: {e}") from e
    raise OSError(f"SavedModel file does not exist at: {folder}/{{{text.name}|{binary.name}}}")


def load(
    sess: Any,
    tags: Iterable[str],
    export_dir: FilePath,
    import_scope: str | None = None,
    **saver_kwargs: Any,
) -> MetaGraphDef:
    """Import a model's graph into the session's, restore its variables and run its main op.

    Args:
        tags: those of the graph, all of them.
        import_scope: a prefix for the names of its nodes.
        saver_kwargs: for `tf.train.import_meta_graph`.

    Returns:
        The graph's MetaGraphDef, with its `signature_def`.

    Raises:
        RuntimeError: no graph has exactly these tags, or it has several main ops.
        OSError: there is no SavedModel.
    """
    wanted = set(tags)
    model = parse_saved_model(export_dir)
    found = [m for m in model.meta_graphs if set(m.meta_info_def.tags) == wanted]
    if not found:
        available = [sorted(m.meta_info_def.tags) for m in model.meta_graphs]
        raise RuntimeError(
            f"MetaGraphDef associated with tags {sorted(wanted)} could not be found in SavedModel "
            f"{os.fsdecode(export_dir)}, with available tags {available}."
        )
    return load_meta_graph(sess, found[0], export_dir, import_scope, **saver_kwargs)


def load_meta_graph(
    sess: Any,
    meta: MetaGraphDef,
    export_dir: FilePath,
    import_scope: str | None = None,
    **saver_kwargs: Any,
) -> MetaGraphDef:
    """Import one graph of a model that was read already; see `load`."""
    with sess.graph.as_default():
        before = {key: len(get_collection(key)) for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY)}
        saver = import_meta_graph(meta, import_scope=import_scope, **saver_kwargs)
        if saver is not None:
            folder = Path(os.fsdecode(export_dir)) / constants.VARIABLES_DIRECTORY
            saver.restore(sess, str(folder / constants.VARIABLES_FILENAME))
        ops = _main_ops(sess, meta, before, import_scope)
        if ops:
            sess.run(ops, _asset_feeds(Path(os.fsdecode(export_dir)), meta, import_scope))
    return meta


def _main_ops(sess: Any, meta: MetaGraphDef, before: dict[str, int], scope: str | None) -> list[Any]:
    key = constants.INIT_OP_SIGNATURE_KEY
    if key in meta.signature_def:
        name = meta.signature_def[key].outputs[key].name
        return [sess.graph.as_graph_element(f"{scope}/{name}" if scope else name)]
    for key, count in before.items():
        imported = get_collection(key)[count:]
        if len(imported) > 1:
            raise RuntimeError(f"Expected exactly one SavedModel init op. Found {len(imported)}: {imported}.")
        if imported:
            return imported
    return []


def _asset_feeds(folder: Path, meta: MetaGraphDef, scope: str | None) -> dict[str, str]:
    """Return the paths of the model's files, for the tensors that hold where they were when it was written."""
    assets = list(meta.asset_file_def)
    if not assets and constants.ASSETS_KEY in meta.collection_def:
        held = meta.collection_def[constants.ASSETS_KEY].any_list.value
        assets = [AssetFileDef.FromString(packed.value) for packed in held]
    prefix = f"{scope}/" if scope else ""
    return {f"{prefix}{a.tensor_info.name}": str(folder / constants.ASSETS_DIRECTORY / a.filename) for a in assets}
