"""`EstimatorSpec`: what a model function gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.export.outputs import with_default
from dtfctl.runtime.estimator.modes import ModeKeys


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, Any]
    export_outputs: dict[str, Any] | None
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """What a model function gives: a loss, an op that trains, predictions, metrics.

    Args:
        mode: one of ModeKeys.
        predictions: a tensor, or tensors by name; needed in PREDICT.
        loss: a scalar; needed in TRAIN and EVAL.
        train_op: needed in TRAIN.
        eval_metric_ops: (value, update op) by name, as `tf.metrics` gives them.
        export_outputs: what a SavedModel's signatures give, by name.
        training_chief_hooks, training_hooks, evaluation_hooks, prediction_hooks: run with the sessions.
        scaffold: how the sessions are initialized and saved.

    Raises:
        ValueError: what the mode needs is missing, or is of another graph.
        TypeError: something is of the wrong type.
    """

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: dict[str, Any] | None = None,
        export_outputs: dict[str, Any] | None = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        if train_op is None and mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        if train_op is not None:
            _require_here(train_op, "train_op", (tf.Tensor, tf.Operation, tf.Variable))
        predictions = _predictions(predictions, mode)
        if mode == ModeKeys.PREDICT:
            export_outputs = with_default(export_outputs, predictions)
        if scaffold is not None and not isinstance(scaffold, tf.train.Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls,
            mode,
            predictions,
            _loss(loss, mode),
            train_op,
            _metrics(eval_metric_ops),
            export_outputs,
            _hooks(training_chief_hooks),
            _hooks(training_hooks),
            scaffold or tf.train.Scaffold(),
            _hooks(evaluation_hooks),
            _hooks(prediction_hooks),
        )

    def _replace(self, **kwds: Any) -> EstimatorSpec:
        """Make a copy with other values; the mode stays."""
        if kwds.get("mode", self.mode) != self.mode:
            raise ValueError("mode of EstimatorSpec cannot be changed.")
        return EstimatorSpec(**{**self._asdict(), **kwds})


def _require_here(value: Any, what: str, kinds: Any = (tf.Tensor, tf.Variable)) -> None:
    if not isinstance(value, kinds):
        raise TypeError(f"{what} must be a Tensor{'' if len(kinds) < 3 else ' or Operation'}, given: {value}")
    if value.graph is not tf.get_default_graph():
        raise ValueError(
            f'{what} with "{value.name}" must be from the default graph: it was made outside of the most recent call '
            "of the model function."
        )


def _loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    _require_here(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}")
    return loss if loss.shape.ndims in (None, 0) else tf.reshape(loss, [])


def _predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    each = predictions.items() if isinstance(predictions, dict) else [("", predictions)]
    for key, value in each:
        if not isinstance(value, tf.SparseTensor):
            _require_here(value, f"predictions[{key}]" if key else "predictions")
    return predictions


def _metrics(metrics: Any) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    metrics = {key: _pair(key, value) if hasattr(value, "update_state") else value for key, value in metrics.items()}
    for key, value in metrics.items():
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError(
                f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {value} for key: {key}"
            )
        for part in tf.nest.flatten(value):
            _require_here(part, f"eval_metric_ops[{key}]", (tf.Tensor, tf.Operation, tf.Variable))
    return dict(metrics)


def _pair(key: str, metric: Any) -> tuple[Any, Any]:
    """Give a metric of Keras as (value, update op); its variables are initialized with the local ones."""
    if not metric.updates:
        raise ValueError(f"Please call the {key!r} metric: nothing was added to it")
    known = tf.get_collection(tf.GraphKeys.LOCAL_VARIABLES)
    for variable in metric.variables:
        if not any(variable is one for one in known):
            tf.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, variable)
    return metric.result(), metric.updates[-1]


def _hooks(hooks: Any) -> tuple[Any, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return found
