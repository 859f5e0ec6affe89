"""`tf.keras.estimator`: compiled Keras models as estimators."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.estimator import Estimator, with_folder
from dtfctl.runtime.estimator.export.outputs import PredictOutput
from dtfctl.runtime.estimator.modes import ModeKeys
from dtfctl.runtime.estimator.spec import EstimatorSpec
from dtfctl.runtime.keras import backend, models, registry, state
from dtfctl.runtime.keras.metrics import Metric
from dtfctl.runtime.keras.optimizers.wrapped import TFOptimizer

__all__ = ["model_to_estimator"]

_SIGNATURE = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: Any = None,
    custom_objects: Any = None,
    model_dir: Any = None,
    config: Any = None,
    checkpoint_format: str | None = None,
    metric_names_map: dict[str, str] | None = None,
    export_outputs: dict[str, Any] | None = None,
) -> Estimator:
    """Make an Estimator of a compiled Keras model.

    Its weights, where they are initialized, are where training begins: they are written to `keras/keras_model.ckpt` in
    the model's folder. The optimizer counts its steps in the global step. Features may be
    `{"features": ..., "sample_weights": ...}`.

    Args:
        keras_model: Sequential, or made of inputs and outputs.
        keras_model_path: a file of `Model.save`, in place of the model.
        custom_objects: classes and functions of the program's own, by name.
        metric_names_map: what `evaluate` calls each metric, by the metric's name in Keras.
        export_outputs: kinds of ExportOutput of a SavedModel's further signatures, by the outputs' names.

    Raises:
        ValueError: there is no model, or two, or it is not compiled.
        NotImplementedError: it is a subclass with `call`, or checkpoints are to be those of objects.
    """
    if (keras_model is None) == (keras_model_path is None):
        raise ValueError("Either `keras_model` or `keras_model_path` needs to be provided, and not both.")
    if checkpoint_format not in (None, "saver"):
        raise NotImplementedError(
            f"checkpoint_format={checkpoint_format!r}: an Estimator's checkpoints are those of tf.train.Saver; leave "
            "it out, and save objects by Model.save_weights"
        )
    model = keras_model
    if model is None:
        model = models.load_model(keras_model_path, custom_objects)
    if model.optimizer is None or model._compiled is None:
        raise ValueError(
            "The given keras model has not been compiled yet. Please compile the model with `model.compile()` before "
            "calling `model_to_estimator()`."
        )
    if not model.inputs:
        raise NotImplementedError(
            f"{model.name} does not say its inputs: make an Estimator of a model of `tf.keras.Input`, or of a "
            "Sequential whose first layer has an input_shape; of others write a model_fn, which calls the model"
        )
    config = with_folder(config, None if model_dir is None else os.fspath(model_dir))
    source = _Source(model, custom_objects, metric_names_map, export_outputs)
    start = source.first_checkpoint(config) if config.is_chief else None
    return Estimator(source.model_fn(), config=config, warm_start_from=start)


class _Source:
    """A compiled model that is made again in the graphs of an estimator."""

    def __init__(self, model: Any, custom_objects: Any, metric_names: Any, export_outputs: Any) -> None:
        self._model, self._custom_objects = model, custom_objects or {}
        self._metric_names, self._export_outputs = metric_names, export_outputs
        # Read in the model's own graph: hyperparameters may be variables of it.
        wrapped = isinstance(model.optimizer, TFOptimizer)
        self._optimizer = None if wrapped else model.optimizer.get_config()

    def first_checkpoint(self, config: Any) -> str:
        """Write what training begins with, unless it is there."""
        folder = os.path.join(config.model_dir, "keras")
        if found := tf.train.latest_checkpoint(folder):
            return str(found)
        ready = state.graph_state().initialized
        weights = self._model.get_weights() if any(w in ready for w in self._model.weights) else None
        tf.gfile.MakeDirs(folder)
        with tf.Graph().as_default():
            tf.set_random_seed(config.tf_random_seed)
            tf.train.create_global_step()
            made = self._again(ModeKeys.TRAIN, None, None)
            made._function("train")
            with tf.Session(config=config.session_config) as session:
                # The first use of it initializes what layers, metrics and the optimizer have.
                backend.get_session()
                if weights is not None:
                    made.set_weights(weights)
                return str(tf.train.Saver().save(session, os.path.join(folder, "keras_model.ckpt")))

    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """Make the model function."""

        def of_keras(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            made = self._again(mode, features, labels)
            predictions = dict(zip(made.output_names, made.outputs))
            outputs = {_SIGNATURE: PredictOutput(predictions)}
            for name, kind in (self._export_outputs or {}).items():
                if name not in predictions:
                    raise KeyError(f"export_outputs has {name!r}, which is no output of the model: {made.output_names}")
                outputs[name] = kind(predictions[name])
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=outputs)
            function = made._function("train" if mode == ModeKeys.TRAIN else "test")
            return EstimatorSpec(
                mode,
                predictions,
                made.total_loss,
                function.updates_op if mode == ModeKeys.TRAIN else None,
                self._metrics(made),
                outputs,
            )

        return of_keras

    def _metrics(self, made: Any) -> dict[str, Metric]:
        found = {
            m.name: m for e in made._endpoints for part in (e.metrics, e.weighted_metrics) for m in dict(part).values()
        }
        if not self._metric_names:
            return found
        if set(found) != set(self._metric_names):
            raise ValueError(
                f"Invalid `metric_names_map`: its keys are {sorted(self._metric_names)}, the metrics {sorted(found)}"
            )
        return {self._metric_names[name]: metric for name, metric in found.items()}

    def _again(self, mode: str, features: Any, labels: Any) -> Any:
        """Make the model in the default graph, of these inputs and compiled with these targets."""
        backend.set_learning_phase(int(mode == ModeKeys.TRAIN))
        weights = None
        if isinstance(features, dict) and set(features) == {"features", "sample_weights"}:
            features, weights = features["features"], features["sample_weights"]
        inputs = self._ordered(features, self._model.input_names, "features")
        if inputs is not None:
            inputs = [_of_type(x, i.dtype.base_dtype) for x, i in zip(inputs, self._model.inputs, strict=True)]
        step = tf.train.get_or_create_global_step()
        with registry.custom_object_scope(self._custom_objects):
            made = models.clone_model(self._model, inputs)
            if mode == ModeKeys.PREDICT:
                return made
            state.track_variable(step)
            targets = self._ordered(labels, self._model.output_names, "labels")
            if targets is not None:
                targets = [_of_type(y, tf.as_dtype(backend.floatx())) for y in targets]
            arguments = {**self._model._compiled, "target_tensors": targets}
            for name in ("metrics", "weighted_metrics"):
                arguments[name] = tf.nest.map_structure(_another, arguments[name])
            made.compile(self._optimizer_again(step), **arguments)
        if weights is not None:
            made._use_tensors_as_weights(self._ordered(weights, made.output_names, "sample_weights"))
        return made

    def _optimizer_again(self, step: Any) -> Any:
        held = self._model.optimizer
        if self._optimizer is None:
            return TFOptimizer(held.optimizer, step)
        made = type(held).from_config(self._optimizer)
        made.iterations = step
        return made

    def _ordered(self, given: Any, names: list[str], what: str) -> list[Any] | None:
        """Put what an input function gives into the model's order."""
        if given is None:
            return None
        if isinstance(given, dict):
            if missing := [name for name in names if name not in given]:
                raise KeyError(
                    f"The dictionary passed into {what} does not cover requested keys defined in the keras model. "
                    f"Expected keys: {sorted(names)}; keys: {sorted(given)}; missed keys: {missing}"
                )
            return [given[name] for name in names]
        return list(given) if isinstance(given, (list, tuple)) else [given]


def _of_type(value: Any, dtype: Any) -> Any:
    """Convert to a tensor; numbers get the type, as Keras feeds them."""
    tensor = value if isinstance(value, tf.SparseTensor) else tf.convert_to_tensor(value)
    if tensor.dtype in (tf.string, dtype):
        return tensor
    return tf.cast(tensor, dtype)


def _another(metric: Any) -> Any:
    """Make a metric anew: an object has variables of the graph it was made in."""
    return type(metric).from_config(metric.get_config()) if isinstance(metric, Metric) else metric
