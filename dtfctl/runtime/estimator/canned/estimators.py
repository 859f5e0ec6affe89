"""The estimators themselves: a head over a model's logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.canned import models
from dtfctl.runtime.estimator.canned.heads import Head, RegressionHead, classification_head
from dtfctl.runtime.estimator.estimator import Estimator

SUM = tf.losses.Reduction.SUM


def _no_sync(optimizer: Any) -> Any:
    if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
        raise ValueError("SyncReplicasOptimizer does not support multi optimizers case: it is not supported here.")
    return optimizer


class DNNEstimator(Estimator):
    """A deep model of dense columns under any head."""

    def __init__(
        self,
        head: Head,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[..., Any] = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ) -> None:
        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            models.require_dict(features)
            trained_by = models.optimizer_of(optimizer, models.DNN_RATE)
            with models.dnn_part(features, config):
                logits = models.dnn_logits(
                    features,
                    mode,
                    head.logits_dimension,
                    tuple(feature_columns or ()),
                    hidden_units,
                    activation_fn,
                    dropout,
                    batch_norm,
                    input_layer_partitioner,
                    config,
                )
                return head.create_estimator_spec(features, mode, logits, labels, optimizer=trained_by)

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNClassifier(DNNEstimator):
    """A deep classifier.

    Args:
        hidden_units: the widths of the hidden layers.
        feature_columns: dense columns.
        n_classes: how many classes; labels are [0, n_classes), or the words of `label_vocabulary`.
        weight_column: a feature that weighs examples.
        optimizer: an Optimizer, a function that makes one, or a name; Adagrad at 0.05.
    """

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[..., Any] = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(
            head,
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )


class DNNRegressor(DNNEstimator):
    """A deep regression; arguments as of DNNClassifier.

    Args:
        label_dimension: numbers an example.
    """

    def __init__(
        self,
        hidden_units: Any,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[..., Any] = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )


class LinearEstimator(Estimator):
    """A linear model of columns under any head."""

    def __init__(
        self,
        head: Head,
        feature_columns: Any,
        model_dir: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            models.require_dict(features)
            columns = tuple(feature_columns or ())
            with models.linear_part(features, config, partitioner):
                logits = models.linear_logits(features, head.logits_dimension, columns, sparse_combiner)
                trained_by = models.optimizer_of(optimizer or "Ftrl", models.LINEAR_RATE)
                return head.create_estimator_spec(features, mode, logits, labels, optimizer=trained_by)

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearClassifier(LinearEstimator):
    """A linear classifier: logistic regression; arguments as of DNNClassifier.

    Args:
        optimizer: Ftrl at 0.2 when not given.
        sparse_combiner: how the weights of an example's ids are combined.
    """

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = classification_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, partitioner, sparse_combiner, warm_start_from
        )


class LinearRegressor(LinearEstimator):
    """A linear regression; arguments as of LinearClassifier."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(
            head, feature_columns, model_dir, optimizer, config, partitioner, sparse_combiner, warm_start_from
        )


class DNNLinearCombinedEstimator(Estimator):
    """A wide and deep model under any head: the logits of both parts, added."""

    def __init__(
        self,
        head: Head,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Callable[..., Any] = tf.nn.relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        wide, deep = list(linear_feature_columns or []), list(dnn_feature_columns or [])
        if not wide and not deep:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            models.require_dict(features)
            units, parts, logits = head.logits_dimension, [], []
            if deep:
                trained_by = _no_sync(models.optimizer_of(dnn_optimizer, models.BOTH_DNN_RATE))
                with models.dnn_part(features, config) as scope:
                    made = models.dnn_logits(
                        features,
                        mode,
                        units,
                        deep,
                        dnn_hidden_units,
                        dnn_activation_fn,
                        dnn_dropout,
                        batch_norm,
                        input_layer_partitioner,
                        config,
                    )
                parts.append((trained_by, scope.name))
                logits.append(made)
            if wide:
                trained_by = _no_sync(models.optimizer_of(linear_optimizer, models.wide_rate(wide)))
                with models.linear_part(features, config, input_layer_partitioner) as scope:
                    made = models.linear_logits(features, units, wide, linear_sparse_combiner)
                    models.summarize(made, scope.name)
                parts.append((trained_by, scope.name))
                logits.append(made)
            return head.create_estimator_spec(
                features,
                mode,
                logits[0] + logits[1] if len(logits) == 2 else logits[0],
                labels,
                train_op_fn=lambda loss: models.train_both(loss, parts),
            )

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A wide and deep classifier; arguments as of DNNClassifier and LinearClassifier."""

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Callable[..., Any] = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            classification_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from,
        )


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A wide and deep regression; arguments as of DNNRegressor and LinearRegressor."""

    def __init__(
        self,
        model_dir: Any = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Any = None,
        dnn_activation_fn: Callable[..., Any] = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            input_layer_partitioner,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from,
        )
