"""Writing SavedModels."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as Any_

from dtfctl.protocol.meta_graph_pb2 import AssetFileDef, MetaGraphDef, SavedModel, SignatureDef, TensorInfo
from dtfctl.runtime.export import constants
from dtfctl.runtime.export.signatures import predict_signature_def
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collection, get_collection
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.lookup_ops import tables_initializer
from dtfctl.runtime.ops.variable_collections import global_variables_initializer, local_variables_initializer
from dtfctl.runtime.train.checkpoint_management import write_atomically
from dtfctl.runtime.train.saveables import all_saveable
from dtfctl.runtime.train.saver import Saver


class SavedModelBuilder:
    """Collects graphs, each under its tags, and variables; `save` writes them to a folder.

    Args:
        export_dir: the folder, which is made.

    Raises:
        AssertionError: it is there and not empty.
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        self._folder = Path(export_dir)
        self._model = SavedModel(saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
        self._has_variables = False
        if self._folder.exists() and any(self._folder.iterdir()):
            raise AssertionError(
                f"Export directory {export_dir} already exists, and isn't empty. Please choose a different export "
                "directory, or delete all the contents of the specified directory."
            )
        self._folder.mkdir(parents=True, exist_ok=True)

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Iterable[Tensor] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph, and write the values its variables have in a session.

        Args:
            tags: what the graph is loaded by.
            signature_def_map: signatures by name.
            assets_collection: constant strings, paths of files that are copied into the model.
            main_op, legacy_init_op: run after loading, such as one that initializes tables.
            clear_devices: leave out where nodes were placed.
            saver: what writes the variables; one of all variables when None.

        Raises:
            AssertionError: variables were added before, or a signature's tensor has no name or type.
            ValueError, TypeError: the graph has a main op already, or it is no operation; a path is no constant.
        """
        if self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` "
                "instead."
            )
        signatures = _checked(signature_def_map)
        self._add_collections(assets_collection, main_op if main_op is not None else legacy_init_op)
        (self._folder / constants.VARIABLES_DIRECTORY).mkdir(exist_ok=True)
        saver = saver or _saver()
        path = self._folder / constants.VARIABLES_DIRECTORY / constants.VARIABLES_FILENAME
        saver.save(sess, str(path), write_meta_graph=False, write_state=False)
        self._add(saver.export_meta_graph(clear_devices=clear_devices), tags, signatures)
        self._has_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Iterable[Tensor] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph, which uses the variables written before; arguments as above.

        Raises:
            AssertionError: no variables were written yet.
        """
        if not self._has_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        signatures = _checked(signature_def_map)
        self._add_collections(assets_collection, main_op if main_op is not None else legacy_init_op)
        self._add((saver or _saver()).export_meta_graph(clear_devices=clear_devices), tags, signatures)

    def save(
        self,
        as_text: bool = False,
        experimental_image_format: bool = False,
        experimental_image_writer_options: Any = None,
    ) -> bytes:
        """Write saved_model.pb, or saved_model.pbtxt; gives its path, as TensorFlow does in bytes.

        Raises:
            ValueError: it is to be cut into pieces.
        """
        if experimental_image_format or experimental_image_writer_options is not None:
            raise ValueError("a model is one file here: keep its weights in variables, and leave the image format out")
        if as_text:
            path, content = constants.SAVED_MODEL_FILENAME_PBTXT, text_format.MessageToString(self._model).encode()
        else:
            path = constants.SAVED_MODEL_FILENAME_PB
            content = self._model.SerializeToString(deterministic=True)
        write_atomically(self._folder / path, content)
        return os.fsencode(self._folder / path)

    def _add(self, meta: MetaGraphDef, tags: Iterable[str], signatures: Mapping[str, SignatureDef]) -> None:
        meta.meta_info_def.tags.extend(tags)
        for key, signature in signatures.items():
            meta.signature_def[key].CopyFrom(signature)
        self._model.meta_graphs.append(meta)

    def _add_collections(self, assets: Iterable[Tensor] | None, main_op: Operation | None) -> None:
        if assets:
            self._copy(list(assets))
        if main_op is None:
            return
        if not isinstance(main_op, Operation):
            raise TypeError(f"Expected {main_op} to be an Operation but got type {type(main_op)} instead.")
        for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
            if get_collection(key):
                raise ValueError(f"Graph already contains one or more main ops under the collection {key}.")
        add_to_collection(constants.MAIN_OP_KEY, main_op)

    def _copy(self, assets: Sequence[Tensor]) -> None:
        folder = self._folder / constants.ASSETS_DIRECTORY
        folder.mkdir(exist_ok=True)
        for tensor in assets:
            source = _path(tensor)
            name = _free_name(folder, source)
            if not (folder / name).exists():
                shutil.copyfile(source, folder / name)
            asset = AssetFileDef(filename=name, tensor_info=TensorInfo(name=tensor.name))
            # The type's name is TensorFlow's, whose messages these are on the wire.
            packed = Any_(type_url="type.googleapis.com/tensorflow.AssetFileDef", value=asset.SerializeToString())
            add_to_collection(constants.ASSETS_KEY, packed)


def _path(tensor: Any) -> Path:
    value = constant_value(tensor) if isinstance(tensor, Tensor) and tensor.dtype is dtypes.string else None
    if value is None or value.shape != ():
        raise TypeError(f"Asset path tensor {tensor} must be a constant string scalar.")
    return Path(value.item().decode())


def _free_name(folder: Path, source: Path) -> str:
    """Return the file's own name, or, where another file has it, that with a number."""
    name, number = source.name, 0
    while (folder / name).exists() and not filecmp.cmp(source, folder / name, shallow=False):
        number += 1
        name = f"{source.name}_{number}"
    return name


def _saver() -> Saver:
    return Saver(all_saveable(), sharded=True, allow_empty=True)


def _checked(signatures: Mapping[str, SignatureDef] | None) -> Mapping[str, SignatureDef]:
    for signature in (signatures or {}).values():
        for info in [*signature.inputs.values(), *signature.outputs.values()]:
            if info.WhichOneof("encoding") is None or not info.dtype:
                raise AssertionError(
                    f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must have the "
                    "name and dtype fields set."
                )
    if constants.INIT_OP_SIGNATURE_KEY in (signatures or {}):
        raise KeyError(f'SignatureDef map key "{constants.INIT_OP_SIGNATURE_KEY}" is reserved for initialization.')
    return signatures or {}


def simple_save(
    session: Any,
    export_dir: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Operation | None = None,
) -> None:
    """Write the default graph with one signature, for prediction, under the tag for serving.

    Args:
        inputs, outputs: tensors by name.
        legacy_init_op: run after loading.
    """
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        [constants.SERVING],
        {constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(inputs, outputs)},
        assets_collection=get_collection(GraphKeys.ASSET_FILEPATHS),
        clear_devices=True,
        main_op=legacy_init_op,
    )
    builder.save()


def main_op() -> Operation:
    """Make an op that initializes variables, local ones too, and tables."""
    return group(global_variables_initializer(), local_variables_initializer(), tables_initializer())
