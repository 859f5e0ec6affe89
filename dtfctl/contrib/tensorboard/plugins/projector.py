"""`tf.contrib.tensorboard.plugins.projector`: which variables TensorBoard's projector shows, and with what labels."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from dtfctl.protocol.projector_pb2 import EmbeddingInfo, ProjectorConfig, SpriteMetadata
from dtfctl.runtime import api as tf

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]


def visualize_embeddings(summary_writer: Any, config: ProjectorConfig) -> None:
    """Write what the projector is to show into the folder of a writer, or of a path: `projector_config.pbtxt`.

    Raises:
        ValueError: the writer has no folder.
    """
    folder = summary_writer if isinstance(summary_writer, str) else summary_writer.get_logdir()
    if not folder:
        raise ValueError("Summary writer must have a logdir")
    with tf.gfile.Open(f"{folder.rstrip('/')}/projector_config.pbtxt", "w") as file:
        file.write(text_format.MessageToString(config))
