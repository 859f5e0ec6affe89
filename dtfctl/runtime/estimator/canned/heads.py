"""Heads: what a model's logits mean: losses, predictions, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.export.outputs import (
    DEFAULT,
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
)
from dtfctl.runtime.estimator.modes import ModeKeys
from dtfctl.runtime.estimator.spec import EstimatorSpec


class _Loss(NamedTuple):
    training: Any
    """The scalar that is minimized."""
    each: Any
    """The loss of each example, [batch, 1]."""
    weights: Any
    labels: Any


class Head:
    """What logits mean; subclasses say which loss, predictions and metrics."""

    def __init__(self, weight_column: Any, loss_reduction: str, loss_fn: Any, name: str | None) -> None:
        if loss_reduction not in tf.losses.Reduction.all() or loss_reduction == tf.losses.Reduction.NONE:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        self._weight_column, self._reduction, self._loss_fn, self.name = weight_column, loss_reduction, loss_fn, name

    @property
    def logits_dimension(self) -> int:
        """How many logits an example has."""
        raise NotImplementedError

    def _predictions(self, logits: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _each_loss(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        """Return the labels as the loss takes them, and the loss by example."""
        raise NotImplementedError

    def _metrics(self, loss: _Loss, predictions: dict[str, Any], given_labels: Any) -> dict[str, Any]:
        raise NotImplementedError

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Any = None,
    ) -> EstimatorSpec:
        """Make the EstimatorSpec of a model with these logits.

        Args:
            logits: float [batch, logits_dimension].
            labels: [batch] or [batch, 1]; [batch, dimension] for a regression.
            optimizer, train_op_fn: how the loss is minimized; one of them in TRAIN.
        """
        with tf.name_scope(self.name, "head"):
            size = logits.shape[-1].value
            if size is not None and size != self.logits_dimension:
                raise ValueError(f"logits shape is {logits.shape}, and its last dimension not {self.logits_dimension}")
            predictions = self._predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = {**self._outputs(predictions), "predict": PredictOutput(predictions)}
                return EstimatorSpec(mode, predictions, export_outputs=outputs)
            loss = self._loss(features, logits, labels)
            extra = tf.add_n(regularization_losses) if regularization_losses else None
            total = loss.training if extra is None else tf.add_n([loss.training, extra])
            if mode == ModeKeys.EVAL:
                metrics = self._metrics(loss, predictions, labels)
                if extra is not None:
                    metrics["regularization_loss"] = tf.metrics.mean(extra, name="regularization_loss")
                named = {self._key(key): value for key, value in metrics.items()}
                return EstimatorSpec(mode, predictions, total, eval_metric_ops=named)
            if (optimizer is None) == (train_op_fn is None):
                raise ValueError("exactly one of train_op_fn and optimizer must be set.")
            if train_op_fn is not None:
                train_op = train_op_fn(total)
            else:
                train_op = optimizer.minimize(total, global_step=tf.train.get_global_step())
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            if updates:
                train_op = tf.group(train_op, *updates)
            mean = None
            if self._reduction == tf.losses.Reduction.SUM:
                mean = loss.training / tf.reduce_sum(loss.weights * tf.ones_like(loss.each))
        with tf.name_scope(""):
            tf.summary.scalar(self._key("loss"), total)
            if mean is not None:
                tf.summary.scalar(self._key("average_loss"), mean)
            if extra is not None:
                tf.summary.scalar(self._key("regularization_loss"), extra)
        return EstimatorSpec(mode, predictions, total, train_op)

    def _key(self, name: str) -> str:
        return f"{name}/{self.name}" if self.name else name

    def _loss(self, features: Any, logits: Any, labels: Any) -> _Loss:
        if labels is None:
            raise ValueError(
                "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check that your data "
                "contain your label feature. Check that your input_fn properly parses and returns labels."
            )
        if isinstance(labels, tf.SparseTensor):
            raise ValueError("SparseTensor labels are not supported.")
        labels = tf.convert_to_tensor(labels)
        if labels.shape.ndims == 1:
            labels = tf.expand_dims(labels, -1)
        ready, each = self._each_loss(labels, logits)
        if self._loss_fn is not None:
            each = self._loss_fn(labels=ready, logits=logits)
        weights = self._weights(features)
        return _Loss(tf.losses.compute_weighted_loss(each, weights, reduction=self._reduction), each, weights, ready)

    def _weights(self, features: Any) -> Any:
        column = self._weight_column
        if column is None:
            return 1.0
        from dtfctl.runtime.feature_column import numeric_column
        from dtfctl.runtime.feature_column.column import Features

        column = numeric_column(column) if isinstance(column, str) else column
        return column.dense_tensor(Features(features))


class BinaryHead(Head):
    """A class of two, by the logit of the second."""

    def __init__(
        self,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = "weighted_sum",
        loss_fn: Any = None,
        name: str | None = None,
        thresholds: Any = None,
    ) -> None:
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._vocabulary = _vocabulary(label_vocabulary, 2)
        self._thresholds = tuple(thresholds or ())

    @property
    def logits_dimension(self) -> int:
        return 1

    def _predictions(self, logits: Any) -> dict[str, Any]:
        with tf.name_scope(None, "predictions", [logits]):
            logistic = tf.sigmoid(logits, name="logistic")
            both = tf.concat((tf.zeros_like(logits), logits), axis=-1, name="two_class_logits")
            found = {"logits": logits, "logistic": logistic, "probabilities": tf.nn.softmax(both, name="probabilities")}
            return {**found, **_classes(both, 2, self._vocabulary)}

    def _outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        output = ClassificationOutput(predictions["probabilities"], _all_names(predictions, 2, self._vocabulary))
        regression = RegressionOutput(predictions["logistic"])
        return {DEFAULT: output, "classification": output, "regression": regression}

    def _each_loss(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        if self._vocabulary is not None:
            labels = tf.lookup.index_table_from_tensor(self._vocabulary, name="class_id_lookup").lookup(labels)
        labels = _in_range(tf.cast(labels, tf.float32), 2)
        return labels, tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def _metrics(self, loss: _Loss, predictions: dict[str, Any], given_labels: Any) -> dict[str, Any]:
        labels, weights, logistic = loss.labels, loss.weights, predictions["logistic"]
        given = {"labels": labels, "predictions": predictions["class_ids"], "weights": weights}
        with tf.name_scope(None, "metrics"):
            mean = tf.metrics.mean(labels, weights, name="label/mean")
            found = {
                "average_loss": tf.metrics.mean(loss.each, weights, name="average_loss"),
                "accuracy": tf.metrics.accuracy(**given, name="accuracy"),
                "precision": tf.metrics.precision(**given, name="precision"),
                "recall": tf.metrics.recall(**given, name="recall"),
                "prediction/mean": tf.metrics.mean(logistic, weights, name="prediction/mean"),
                "label/mean": mean,
                "accuracy_baseline": (tf.maximum(mean[0], 1 - mean[0]), tf.maximum(mean[1], 1 - mean[1])),
                "auc": _auc(labels, logistic, weights, "ROC", "auc"),
                "auc_precision_recall": _auc(labels, logistic, weights, "PR", "auc_precision_recall"),
            }
            for limit in self._thresholds:
                above = tf.cast(tf.greater_equal(logistic, limit), tf.float32)
                for kind, metric in _AT_THRESHOLD.items():
                    key = f"{kind}/positive_threshold_{limit:g}"
                    found[key] = getattr(tf.metrics, metric)(labels, above, weights, name=key)
            return found


_AT_THRESHOLD = {"accuracy": "accuracy", "precision": "precision", "recall": "recall"}


def _auc(labels: Any, predictions: Any, weights: Any, curve: str, name: str) -> Any:
    return tf.metrics.auc(labels, predictions, weights, curve=curve, name=name)


class MultiClassHead(Head):
    """A class of several, by a logit for each."""

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        loss_reduction: str = "weighted_sum",
        loss_fn: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        if n_classes <= 2:
            raise ValueError(f"n_classes must be > 2 for classification: {n_classes}")
        self._count, self._vocabulary = n_classes, _vocabulary(label_vocabulary, n_classes)

    @property
    def logits_dimension(self) -> int:
        return self._count

    def _predictions(self, logits: Any) -> dict[str, Any]:
        with tf.name_scope(None, "predictions", [logits]):
            named = _classes(logits, self._count, self._vocabulary)
            return {"logits": logits, "probabilities": tf.nn.softmax(logits, name="probabilities"), **named}

    def _outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        names = _all_names(predictions, self._count, self._vocabulary)
        output = ClassificationOutput(predictions["probabilities"], names)
        return {DEFAULT: output, "classification": output}

    def _each_loss(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        if self._vocabulary is not None:
            labels = tf.lookup.index_table_from_tensor(self._vocabulary, name="class_id_lookup").lookup(labels)
        elif not labels.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
        labels = _in_range(labels, self._count)
        each = tf.losses.sparse_softmax_cross_entropy(labels, logits, reduction=tf.losses.Reduction.NONE)
        return labels, tf.expand_dims(each, axis=-1)

    def _metrics(self, loss: _Loss, predictions: dict[str, Any], given_labels: Any) -> dict[str, Any]:
        with tf.name_scope(None, "metrics"):
            right = tf.metrics.accuracy(loss.labels, predictions["class_ids"], loss.weights, name="accuracy")
            return {
                "average_loss": tf.metrics.mean(loss.each, loss.weights, name="average_loss"),
                "accuracy": right,
            }


class RegressionHead(Head):
    """Numbers, by their squared errors."""

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = "weighted_sum",
        loss_fn: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        self._dimension = label_dimension

    @property
    def logits_dimension(self) -> int:
        return self._dimension

    def _predictions(self, logits: Any) -> dict[str, Any]:
        return {"predictions": logits}

    def _outputs(self, predictions: dict[str, Any]) -> dict[str, Any]:
        output = RegressionOutput(predictions["predictions"])
        return {DEFAULT: output, "regression": output}

    def _each_loss(self, labels: Any, logits: Any) -> tuple[Any, Any]:
        labels = tf.cast(labels, tf.float32)
        return labels, tf.losses.mean_squared_error(labels, logits, reduction=tf.losses.Reduction.NONE)

    def _metrics(self, loss: _Loss, predictions: dict[str, Any], given_labels: Any) -> dict[str, Any]:
        return {
            "average_loss": tf.metrics.mean(loss.each, loss.weights),
            "prediction/mean": tf.metrics.mean(predictions["predictions"], loss.weights, name="prediction/mean"),
            "label/mean": tf.metrics.mean(given_labels, loss.weights),
        }


def classification_head(n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str) -> Head:
    """Make the head of a classifier."""
    if n_classes == 2:
        return BinaryHead(weight_column, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


def _vocabulary(words: Any, count: int) -> tuple[Any, ...] | None:
    if words is None:
        return None
    if not isinstance(words, (list, tuple)):
        raise ValueError(f"label_vocabulary should be a list or a tuple. Given type: {type(words)}")
    if len(words) != count:
        raise ValueError(f"label_vocabulary has {len(words)} labels for {count} classes")
    return tuple(words)


def _classes(logits: Any, count: int, vocabulary: tuple[Any, ...] | None) -> dict[str, Any]:
    """Return the likeliest class of each example, and all classes, by id and by name."""
    ids = tf.expand_dims(tf.argmax(logits, axis=-1, name="class_ids"), axis=-1)
    rows = tf.shape(logits)[0]
    all_ids = tf.tile(tf.expand_dims(tf.range(count), 0), [rows, 1])
    if vocabulary is None:
        names, every = tf.as_string(ids, name="str_classes"), tf.as_string(all_ids)
    else:
        names = tf.gather(tf.constant(vocabulary), ids)
        every = tf.tile(tf.expand_dims(tf.constant(vocabulary), 0), [rows, 1])
    return {"class_ids": ids, "classes": names, "all_class_ids": all_ids, "all_classes": every}


def _all_names(predictions: dict[str, Any], count: int, vocabulary: tuple[Any, ...] | None) -> Any:
    words = tf.constant(vocabulary) if vocabulary is not None else tf.as_string(tf.range(count))
    return tf.tile(tf.expand_dims(words, 0), [tf.shape(predictions["probabilities"])[0], 1])


def _in_range(labels: Any, count: int) -> Any:
    with tf.name_scope(None, "assert_range", [labels]):
        top = tf.convert_to_tensor(count - 1, dtype=labels.dtype)
        below = tf.assert_less_equal(labels, top, message="Labels must <= n_classes - 1")
        with tf.control_dependencies([below, tf.assert_non_negative(labels, message="Labels must >= 0")]):
            return tf.identity(labels)
