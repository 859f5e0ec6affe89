"""`tf.estimator`: models that are trained, evaluated, asked and exported, here or on a cluster."""

from __future__ import annotations

from dtfctl.runtime.estimator import export, inputs, tpu
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
from dtfctl.runtime.train.hooks.checkpoints import CheckpointSaverHook, CheckpointSaverListener
from dtfctl.runtime.train.hooks.runs import FeedFnHook, FinalOpsHook
from dtfctl.runtime.train.hooks.stopping import (
    GlobalStepWaiterHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    StopAtStepHook,
)
from dtfctl.runtime.train.hooks.summaries import LoggingTensorHook, ProfilerHook, StepCounterHook, SummarySaverHook
from dtfctl.runtime.train.hooks.timing import SecondOrStepTimer
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

__all__ = [
    "BestExporter",
    "BinaryHead",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
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
    "FeedFnHook",
    "FinalExporter",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "LoggingTensorHook",
    "ModeKeys",
    "MultiClassHead",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "RegressionHead",
    "RunConfig",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "WarmStartSettings",
    "export",
    "inputs",
    "tpu",
    "train_and_evaluate",
]
