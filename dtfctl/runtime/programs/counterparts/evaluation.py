"""`tensorflow.python.training.evaluation`: what evaluation loops of other libraries take from it."""

from dtfctl.runtime.train.evaluation import (
    StopAfterNEvalsHook as _StopAfterNEvalsHook,
    evaluate_once as _evaluate_once,
    get_or_create_eval_step as _get_or_create_eval_step,
)

__all__ = ["_StopAfterNEvalsHook", "_evaluate_once", "_get_or_create_eval_step"]
