"""All models of the zoo by name: `build` is what the driver calls."""

from __future__ import annotations

from typing import Any

from benchmarks.programs import Program
from benchmarks.programs.zoo import attention, images, program, recurrent, tables

MODELS = {
    make.__name__: make
    for make in (
        attention.transformer,
        attention.bert,
        attention.lengths,
        attention.graph_attention,
        attention.sparse_graph_attention,
        recurrent.lstm_loop,
        recurrent.lstm_unrolled,
        recurrent.gru,
        recurrent.bidirectional,
        recurrent.seq2seq,
        recurrent.sentences,
        images.cnn,
        images.batches,
        images.small_resnet,
        images.resnet20,
        images.dcgan,
        images.vae,
        images.autoencoder,
        tables.word2vec,
        tables.deepfm,
        tables.wide_and_deep,
        tables.dqn,
    )
}


def build(tf: Any, target: str, model: str, batch: int, trains: bool = True, spread: bool = False) -> Program:
    """Make one of the models a program.

    Args:
        trains: False for steps that only fetch what the model gives.
        spread: whether its variables are a ps's, and the rest the first worker's.
    """
    places = tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0") if spread else None
    return program(tf, target, MODELS[model], batch, trains, places)
