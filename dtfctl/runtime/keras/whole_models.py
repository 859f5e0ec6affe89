"""Whole models in files: layers, values, how they are compiled, and the state of the optimizer.

Keras reads the HDF5 files, and this reads Keras's (`model.save("model.h5")`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.keras import hdf5, losses, metrics, optimizers, registry, saved_models
from dtfctl.runtime.keras.backend.values import batch_set_value
from dtfctl.runtime.keras.optimizers.wrapped import TFOptimizer
from dtfctl.runtime.keras.provided import Role, provided
from dtfctl.runtime.keras.weight_files import plain

_LOG = logging.getLogger(__name__)
_COMPILED = ("loss", "metrics", "weighted_metrics", "loss_weights", "sample_weight_mode")


def save_model(
    model: Any,
    filepath: Any,
    overwrite: bool = True,
    include_optimizer: bool = True,
    save_format: str | None = None,
    signatures: Any = None,
    options: Any = None,
) -> None:
    """Write a model to an HDF5 file, or to a folder that is a SavedModel.

    Args:
        overwrite: replace what is there.
        include_optimizer: write how it is compiled, and the optimizer's state, too.
        save_format: "h5", or "tf" for a SavedModel, which is served and is loaded again by `load_model`.

    Raises:
        NotImplementedError: the model is defined by its code, and is to be HDF5; or signatures are given.
        FileExistsError: there is something, and it is not to be replaced.
    """
    path = os.fspath(filepath)
    if signatures is not None or options is not None:
        raise NotImplementedError(
            "tf.keras models are saved with one signature, of their inputs and outputs: write others with "
            "tf.saved_model.Builder and tf.keras.backend.get_session()"
        )
    is_file = hdf5.is_hdf5(path, save_format or "h5")
    if not overwrite and os.path.exists(path):
        raise FileExistsError(f"{path} is there already: delete it, or save with overwrite=True")
    described: dict[str, Any] = {}
    if is_file or model._topology is not None:
        described["model_config"] = {"class_name": type(model).__name__, "config": model.get_config()}
    optimizer = model.optimizer if include_optimizer else None
    if isinstance(optimizer, TFOptimizer):
        _LOG.warning("an optimizer of tf.train is not saved with its model: compile the model again after loading it")
        optimizer = None
    if optimizer is not None:
        described["training_config"] = _training_config(model)
    if not is_file:
        saved_models.write(path, model, optimizer, json.dumps(described, default=plain))
        return
    texts = {name: json.dumps(value, default=plain).encode() for name, value in described.items()}
    with hdf5.replaced(path) as file:
        file.attrs["keras_version"], file.attrs["backend"] = "2.2.4-tf", "tensorflow"
        for name, text in texts.items():
            file.attrs[name] = text
        hdf5.write_layers(file.create_group("model_weights"), model)
        if optimizer is not None and optimizer.weights:
            names = [variable.name for variable in optimizer.weights]
            hdf5.write_values(file.create_group("optimizer_weights"), names, optimizer.get_weights())


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, safe_mode: bool = False) -> Any:
    """Read a model from what `save_model` wrote, or from an HDF5 file of Keras.

    Args:
        custom_objects: classes and functions of the program's own, by name.
        compile: compile the model as it was, with the optimizer's state.
        safe_mode: refuse a model with code in it, which a `Lambda` layer saves and runs. For files of others; False, as
            programs of TensorFlow 1 expect it.

    Raises:
        OSError: there is nothing. ValueError: there is no model in it, or with `safe_mode` one with code.
        NotImplementedError: it is a SavedModel that TensorFlow wrote.
    """
    path = os.fspath(filepath)
    if not os.path.exists(path):
        raise OSError(f"SavedModel file does not exist at: {path}")
    with registry.custom_object_scope(custom_objects or {}), registry.code_refused(safe_mode):
        if os.path.isdir(path):
            found = saved_models.read(path)
            model = provided(Role.LAYER)(found.description["model_config"], custom_objects)
            batch_set_value(list(zip(model.weights, found.weights)))
            return _compiled(model, found.description.get("training_config"), found.state, path) if compile else model
        with hdf5.opened(path, "r") as file:
            config = _described(file, "model_config")
            if config is None:
                raise ValueError(
                    f"No model config found in the file at {path}: it may have weights only (`load_weights`)"
                )
            model = provided(Role.LAYER)(config, custom_objects)
            hdf5.read_layers(file["model_weights"], model, by_name=False)
            if not compile:
                return model
            state = hdf5.read_values(file["optimizer_weights"]) if "optimizer_weights" in file else None
            return _compiled(model, _described(file, "training_config"), state, path)


def _compiled(model: Any, training: Any, state: Any, path: str) -> Any:
    """Compile a model as it was, with the optimizer's state."""
    if training is None:
        _LOG.warning("%s does not say how the model is compiled: compile it before it is trained", path)
        return model
    model.compile(**_compile_arguments(training), from_serialized=True)
    if state is not None:
        model.optimizer.make_weights(model.trainable_weights)
        model.optimizer.set_weights(state)
    return model


def _described(file: Any, name: str) -> Any:
    text = file.attrs.get(name)
    return None if text is None else json.loads(text)


def _training_config(model: Any) -> dict[str, Any]:
    """Describe how a model is compiled."""
    given = model._compiled
    own = {name: _mapped(registry.serialize_keras_object, given[name]) for name in ("loss", *_COMPILED[1:3])}
    plain_ones = {name: given[name] for name in _COMPILED[3:]}
    optimizer = {"class_name": type(model.optimizer).__name__, "config": model.optimizer.get_config()}
    return {**own, **plain_ones, "optimizer_config": optimizer}


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to what `compile` was given, in lists and dictionaries too; names stay."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _mapped(function, one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(function, one) for one in value]
    return function(value)


def _compile_arguments(training: dict[str, Any]) -> dict[str, Any]:
    """Give what `compile` was called with."""
    arguments = {name: training.get(name) for name in _COMPILED}
    arguments["loss"] = _mapped(losses.deserialize, arguments["loss"])
    for name in ("metrics", "weighted_metrics"):
        arguments[name] = _mapped(metrics.deserialize, arguments[name])
    return {"optimizer": optimizers.deserialize(training["optimizer_config"]), **arguments}
