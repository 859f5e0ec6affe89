"""What a model is built for, and what tasks are called."""

from __future__ import annotations


class ModeKeys:
    """What a model function is called for: training, evaluation, prediction."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class TaskType:
    """The kinds of tasks in TF_CONFIG."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"
