"""Weights in files, models as configurations and as tables."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.keras import hdf5, state


def _need_weights(model: Any) -> None:
    if not model.weights:
        raise ValueError(
            f"Model {model.name} has no weights yet: call it, or build it with an input shape, before its weights are "
            "saved or loaded"
        )


def save_weights(model: Any, path: str, overwrite: bool, save_format: str | None) -> None:
    """Write the variables of a model."""
    path = os.fspath(path)
    _need_weights(model)
    if hdf5.is_hdf5(path, save_format):
        if not overwrite and os.path.exists(path):
            raise FileExistsError(path)
        with hdf5.replaced(path) as file:
            hdf5.write_layers(file, model)
        return
    from dtfctl.runtime.train.checkpoint import Checkpointer
    from dtfctl.runtime.train.checkpoint_management import update_checkpoint_state

    Checkpointer(model).save(path, state.get_session())
    update_checkpoint_state(os.path.dirname(path), path, [path])


def load_weights(model: Any, path: str, by_name: bool) -> Any:
    """Read the variables of a model."""
    path = os.fspath(path)
    if os.path.exists(f"{path}.index"):
        if by_name:
            raise NotImplementedError(
                "Weights may only be loaded based on topology into Models from checkpoints: by_name is for HDF5"
            )
        from dtfctl.runtime.train.checkpoint import Checkpointer

        status = Checkpointer(model).restore(path)
        if model.weights:
            status.initialize_or_restore(state.get_session())
        return status
    _need_weights(model)
    with hdf5.opened(path, "r") as file:
        hdf5.read_layers(file.get("model_weights", file), model, by_name)
    return None


# Descriptions ---------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Make what JSON has of what configurations have besides."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "as_list"):
        return value.as_list()
    if isinstance(value, DType):
        return value.name
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    raise TypeError(f"Not JSON serializable: {value!r}")


def to_json(model: Any, **kwargs: Any) -> str:
    """Write class and configuration as JSON."""
    whole = {
        "class_name": type(model).__name__,
        "config": model.get_config(),
        "keras_version": "2.2.4-tf",
        "backend": "tensorflow",
    }
    return json.dumps(whole, default=plain, **kwargs)
