"""Whole models as SavedModels: folders that are served, with the model's description beside its values."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.export import constants
from dtfctl.runtime.export.builder import SavedModelBuilder
from dtfctl.runtime.export.signatures import predict_signature_def
from dtfctl.runtime.keras import state
from dtfctl.runtime.train.checkpoint_utils import load_checkpoint
from dtfctl.runtime.train.saver import Saver

_DESCRIPTION = Path("assets", "saved_model.json")


class Saved(NamedTuple):
    """What `read` finds: a description, the values of the model's variables, those of the optimizer's or None."""

    description: dict[str, Any]
    weights: list[np.ndarray[Any, Any]]
    state: list[np.ndarray[Any, Any]] | None


def write(path: str, model: Any, optimizer: Any, description: str) -> None:
    """Write a folder that takes the place of what is there when it is whole.

    Raises:
        ValueError: the model was not called yet.
    """
    if not model.inputs:
        raise ValueError(f"Model {model.name} has no inputs yet: call it, or fit it, before it is saved")
    session = state.get_session()
    kept = list(optimizer.weights) if optimizer is not None else []
    partial = f"{path.rstrip(os.sep)}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    signature = predict_signature_def(
        dict(zip(model.input_names, model.inputs)), dict(zip(model.output_names, model.outputs))
    )
    with session.graph.as_default():
        builder = SavedModelBuilder(partial)
        builder.add_meta_graph_and_variables(
            session,
            [constants.SERVING],
            {constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
            clear_devices=True,
            saver=Saver([*model.weights, *kept]),
        )
        builder.save()
    names = {"weights": [v.op.name for v in model.weights], "optimizer_weights": [v.op.name for v in kept]}
    beside = Path(partial, _DESCRIPTION)
    beside.parent.mkdir(exist_ok=True)
    beside.write_text(json.dumps({**json.loads(description), **names}))
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
    os.rename(partial, path)


def read(path: str) -> Saved:
    """Read what `write` wrote.

    Raises:
        NotImplementedError: the folder has no description of a model: TensorFlow wrote it, or the model was code.
    """
    beside = Path(path, _DESCRIPTION)
    found = json.loads(beside.read_text()) if beside.is_file() else {}
    if "model_config" not in found or "weights" not in found:
        raise NotImplementedError(
            f"{path} has no description of a tf.keras model (TensorFlow wrote it, or the model is defined by its "
            "code): it is run with tf.saved_model.load, or make the model and load its weights"
        )
    reader = load_checkpoint(str(Path(path, "variables", "variables")))
    weights, kept = ([reader.get_tensor(n) for n in found[key]] for key in ("weights", "optimizer_weights"))
    return Saved(found, weights, kept or None)
