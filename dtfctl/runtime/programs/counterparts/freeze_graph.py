"""`tensorflow.python.tools.freeze_graph`: a graph and a checkpoint made one graph of constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

import dtfctl.runtime as tf


def freeze_graph(
    input_graph: str | None,
    input_saver: str,
    input_binary: bool,
    input_checkpoint: str | None,
    output_node_names: str,
    restore_op_name: str | None,
    filename_tensor_name: str | None,
    output_graph: str,
    clear_devices: bool,
    initializer_nodes: str,
    variable_names_whitelist: str = "",
    variable_names_denylist: str = "",
    input_meta_graph: str | None = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: str = "serve",
    checkpoint_version: int = 2,
) -> Any:
    """Replace a graph's variables by constants of a checkpoint's values, and write it to `output_graph`.

    Args:
        input_graph, input_meta_graph, input_saved_model_dir: files of the graph, one of them; read as text unless
            `input_binary`, but for a MetaGraph that `Saver.save` has written.
        restore_op_name, filename_tensor_name: not used, as in TensorFlow.

    Raises:
        ValueError: a file is not there, or no output is named.
    """
    graph_def = _read(tf.GraphDef(), input_graph, input_binary) if input_graph else None
    meta = None if not input_meta_graph else _read(tf.MetaGraphDef(), input_meta_graph, input_binary)
    saver_def = _read(tf.train.SaverDef(), input_saver, input_binary) if input_saver else None
    return freeze_graph_with_def_protos(
        graph_def,
        saver_def,
        input_checkpoint,
        output_node_names,
        restore_op_name,
        filename_tensor_name,
        output_graph,
        clear_devices,
        initializer_nodes,
        variable_names_whitelist,
        variable_names_denylist,
        meta,
        input_saved_model_dir,
        [tag for tag in saved_model_tags.replace(" ", "").split(",") if tag],
        checkpoint_version,
    )


def freeze_graph_with_def_protos(
    input_graph_def: Any,
    input_saver_def: Any,
    input_checkpoint: str | None,
    output_node_names: str,
    restore_op_name: str | None,
    filename_tensor_name: str | None,
    output_graph: str,
    clear_devices: bool,
    initializer_nodes: str,
    variable_names_whitelist: str = "",
    variable_names_denylist: str = "",
    input_meta_graph_def: Any = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: list[str] | None = None,
    checkpoint_version: int = 2,
) -> Any:
    """Freeze a graph that was read already; see `freeze_graph`."""
    if not input_saved_model_dir and not (input_checkpoint and tf.train.checkpoint_exists(input_checkpoint)):
        raise ValueError(f"Input checkpoint '{input_checkpoint}' doesn't exist!")
    if not output_node_names:
        raise ValueError("You need to supply the name of a node to --output_node_names.")
    with tf.Graph().as_default() as graph, tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        if input_saved_model_dir:
            tf.saved_model.loader.load(session, saved_model_tags or [], input_saved_model_dir)
        elif input_meta_graph_def is not None:
            tf.train.import_meta_graph(input_meta_graph_def, clear_devices=clear_devices).restore(
                session, input_checkpoint
            )
        else:
            for node in input_graph_def.node if clear_devices else ():
                node.device = ""
            tf.import_graph_def(input_graph_def, name="")
            saver = tf.train.Saver(saver_def=input_saver_def) if input_saver_def else _saver(graph, input_checkpoint)
            saver.restore(session, input_checkpoint)
        if initializer_nodes and not input_saved_model_dir:
            session.run(_listed(initializer_nodes))
        frozen = tf.graph_util.convert_variables_to_constants(
            session,
            graph.as_graph_def(),
            _listed(output_node_names),
            variable_names_whitelist=_listed(variable_names_whitelist) or None,
            variable_names_blacklist=_listed(variable_names_denylist) or None,
        )
    if output_graph:
        Path(output_graph).write_bytes(frozen.SerializeToString(deterministic=True))
    return frozen


def _listed(names: str) -> list[str]:
    return [name for name in names.replace(" ", "").split(",") if name]


def _saver(graph: Any, checkpoint: str | None) -> Any:
    """Make a Saver of what the checkpoint has and the graph, too."""
    held = tf.train.NewCheckpointReader(checkpoint).get_variable_to_shape_map()
    found = {}
    for name in held:
        try:
            found[name] = graph.get_tensor_by_name(f"{name}:0")
        except KeyError:
            continue
    if not found:
        raise ValueError(
            "No variables were found in this model. It is likely the model was frozen previously. You cannot freeze a "
            "graph twice."
        )
    return tf.train.Saver(var_list=found)


def _read(proto: Message, path: str, is_binary: bool) -> Message:
    file = Path(path)
    if not file.exists():
        raise ValueError(f"Input file '{path}' doesn't exist!")
    if is_binary or path.endswith(".meta"):
        proto.ParseFromString(file.read_bytes())
    else:
        text_format.Parse(file.read_text(), proto)
    return proto
