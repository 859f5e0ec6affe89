"""`tf.train`: optimizers, savers, sessions that recover, hooks, servers. Each name is imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "checkpoint": ("Checkpoint", "CheckpointManager"),
    "checkpoint_management": (
        "CheckpointState",
        "checkpoint_exists",
        "generate_checkpoint_state_proto",
        "get_checkpoint_mtimes",
        "get_checkpoint_state",
        "latest_checkpoint",
        "remove_checkpoint",
        "update_checkpoint_state",
    ),
    "checkpoint_utils": ("NewCheckpointReader", "list_variables", "load_checkpoint", "load_variable"),
    "coordinator": ("Coordinator", "LooperThread"),
    "device_setter": (
        "GreedyLoadBalancingStrategy",
        "RoundRobinStrategy",
        "byte_size_load_fn",
        "replica_device_setter",
    ),
    "graph_io": ("write_graph",),
    "hooks.checkpoints": ("CheckpointSaverHook", "CheckpointSaverListener"),
    "hooks.runs": ("FeedFnHook", "FinalOpsHook"),
    "hooks.stopping": ("GlobalStepWaiterHook", "NanLossDuringTrainingError", "NanTensorHook", "StopAtStepHook"),
    "hooks.summaries": ("LoggingTensorHook", "ProfilerHook", "StepCounterHook", "SummarySaverHook"),
    "hooks.timing": ("SecondOrStepTimer",),
    "input": (
        "batch",
        "batch_join",
        "input_producer",
        "limit_epochs",
        "match_filenames_once",
        "maybe_batch",
        "maybe_batch_join",
        "maybe_shuffle_batch",
        "maybe_shuffle_batch_join",
        "range_input_producer",
        "shuffle_batch",
        "shuffle_batch_join",
        "slice_input_producer",
        "string_input_producer",
    ),
    "learning_rate_decay": (
        "cosine_decay",
        "cosine_decay_restarts",
        "exponential_decay",
        "inverse_time_decay",
        "linear_cosine_decay",
        "noisy_linear_cosine_decay",
        "natural_exp_decay",
        "piecewise_constant",
        "piecewise_constant_decay",
        "polynomial_decay",
    ),
    "meta_graph": ("export_meta_graph",),
    "meta_graph_import": ("import_meta_graph",),
    "monitored_session": (
        "ChiefSessionCreator",
        "MonitoredSession",
        "MonitoredTrainingSession",
        "SessionCreator",
        "SingularMonitoredSession",
        "WorkerSessionCreator",
    ),
    "moving_averages": ("ExponentialMovingAverage", "assign_moving_average"),
    "optimizer": ("Optimizer",),
    "optimizers.adagrad": ("AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "ProximalAdagradOptimizer"),
    "optimizers.adam": ("AdamOptimizer", "RMSPropOptimizer"),
    "optimizers.descent": ("GradientDescentOptimizer", "MomentumOptimizer", "ProximalGradientDescentOptimizer"),
    "optimizers.ftrl": ("FtrlOptimizer",),
    "progress": ("ProgressHook", "report"),
    "queue_runner": ("QueueRunner", "add_queue_runner", "start_queue_runners"),
    "saveables": ("SaveableObject",),
    "saver": ("Saver",),
    "scaffold": ("Scaffold",),
    "server_lib": ("ClusterSpec", "Server"),
    "session_manager": ("SessionManager",),
    "session_run_hook": ("SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues"),
    "summary_io": ("FileWriter", "FileWriterCache", "summary_iterator"),
    "supervised_loop": ("basic_train_loop",),
    "supervisor": ("Supervisor",),
    "sync_replicas_optimizer": ("SyncReplicasOptimizer",),
    "training_util": (
        "assert_global_step",
        "create_global_step",
        "get_global_step",
        "get_or_create_global_step",
        "global_step",
    ),
    "warm_starting": ("VocabInfo", "checkpoints_iterator", "init_from_checkpoint", "warm_start"),
}
_MESSAGES = {
    "config_pb2": ("ClusterDef", "JobDef", "ServerDef"),
    "meta_graph_pb2": ("SaverDef",),
    "example_pb2": (
        "BytesList",
        "Example",
        "Feature",
        "FeatureList",
        "FeatureLists",
        "Features",
        "FloatList",
        "Int64List",
        "SequenceExample",
    ),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
_HOME["Timeline"] = "dtfctl.runtime.profiler.timeline"
_HOME |= dict.fromkeys(("Compression", "compress_transfers"), "dtfctl.runtime.ops.transfer_compression")
_HOME |= {name: f"dtfctl.protocol.{module}" for module, names in _MESSAGES.items() for name in names}
# Modules whose names are under their own.
_BELOW = ("experimental",)
__all__ = sorted([*_HOME, *_BELOW])


def __getattr__(name: str) -> Any:
    if name in _BELOW:
        return importlib.import_module(f"{__name__}.{name}")
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'tf.train' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
