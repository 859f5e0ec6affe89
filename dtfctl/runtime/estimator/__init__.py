"""`tf.estimator`: models that are trained, evaluated, asked and exported, here or on a cluster."""

from __future__ import annotations

from dtfctl.runtime.estimator import export, inputs
from dtfctl.runtime.estimator.canned import (
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
)
from dtfctl.runtime.estimator.canned.heads import BinaryHead, MultiClassHead, RegressionHead
from dtfctl.runtime.estimator.estimator import Estimator
from dtfctl.runtime.estimator.exporters import BestExporter, Exporter, FinalExporter, LatestExporter
from dtfctl.runtime.estimator.modes import ModeKeys
from dtfctl.runtime.estimator.run_config import RunConfig
from dtfctl.runtime.estimator.spec import EstimatorSpec
from dtfctl.runtime.estimator.training import EvalSpec, TrainSpec, train_and_evaluate
from dtfctl.runtime.estimator.warm import WarmStartSettings

__all__ = [
    "BestExporter",
    "BinaryHead",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "ModeKeys",
    "MultiClassHead",
    "RegressionHead",
    "RunConfig",
    "TrainSpec",
    "WarmStartSettings",
    "export",
    "inputs",
    "train_and_evaluate",
]
