"""`train_and_evaluate`: the part of each task, here and on a cluster."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.estimator import Estimator
from dtfctl.runtime.estimator.exporters import Exporter
from dtfctl.runtime.estimator.modes import TaskType
from dtfctl.runtime.train.hooks.checkpoints import CheckpointSaverListener

# How long workers wait for each other's start, as TensorFlow's do.
_SECONDS_PER_WORKER, _LONGEST_DELAY_S = 5.0, 60.0


class _Train(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[Any, ...]


class TrainSpec(_Train):
    """What is trained on, and until which step; see `Estimator.train`."""

    def __new__(cls, input_fn: Callable[..., Any], max_steps: int | None = None, hooks: Any = None) -> TrainSpec:
        if not callable(input_fn):
            raise TypeError(f"`input_fn` must be callable, given: {input_fn}")
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(cls, input_fn, max_steps, _hooks(hooks))


class _Eval(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_Eval):
    """What is evaluated on, and how often; see `Estimator.evaluate`.

    Args:
        steps: batches; until the input ends when None.
        exporters: an Exporter or several, asked after each evaluation.
        start_delay_secs: when an evaluator's first evaluation begins.
        throttle_secs: the least time between two.
    """

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Any = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        if not callable(input_fn):
            raise TypeError(f"`input_fn` must be callable, given: {input_fn}")
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        for what, secs in (("start_delay_secs", start_delay_secs), ("throttle_secs", throttle_secs)):
            if secs < 0:
                raise ValueError(f"Must specify {what} >= 0, given: {secs}")
        return super().__new__(
            cls, input_fn, steps, name, _hooks(hooks), _exporters(exporters), start_delay_secs, throttle_secs
        )


def _hooks(hooks: Any) -> tuple[Any, ...]:
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks must be `SessionRunHook` instances, given: {hook}")
    return found


def _exporters(exporters: Any) -> tuple[Any, ...]:
    if exporters is None:
        return ()
    found = (exporters,) if isinstance(exporters, Exporter) else tuple(exporters)
    for one in found:
        if not isinstance(one, Exporter):
            raise TypeError(f"`exporters` must be an Exporter, an iterable of Exporter, or `None`, found {one}.")
    if len({one.name for one in found}) != len(found):
        raise ValueError(f"`exporters` must have unique names: {[one.name for one in found]}")
    return found


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    """Do what this task's part of training and evaluating is.

    Without a cluster, and as its chief where no task is an evaluator: train, and evaluate after checkpoints. As a
    worker: train. As an evaluator: evaluate new checkpoints until the last step. As a ps: serve.

    Returns:
        The last evaluation's metrics and what was exported, where this task has evaluated; else None.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}")
    if not isinstance(train_spec, TrainSpec):
        raise TypeError(f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {type(train_spec)}")
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}")
    config = estimator.config
    if config.task_type == TaskType.EVALUATOR:
        if config.task_id > 0:
            raise ValueError(
                "For distributed training, there can only be one `evaluator` task (with task id 0). Given task id "
                f"{config.task_id}"
            )
        return _evaluate_until_the_end(estimator, train_spec, eval_spec)
    if not config.cluster_spec.as_dict():
        return _train_and_evaluate_here(estimator, train_spec, eval_spec)
    server = _server(estimator)
    if config.task_type == TaskType.PS:
        server.join()
        return None
    if config.is_chief and not _has_evaluator():
        return _train_and_evaluate_here(estimator, train_spec, eval_spec)
    if config.task_type == TaskType.WORKER and not config.is_chief:
        longest = config.experimental_max_worker_delay_secs
        longest = _LONGEST_DELAY_S if longest is None else longest
        time.sleep(min(longest, (config.task_id + 1) * _SECONDS_PER_WORKER))
    estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps)
    return None


def _has_evaluator() -> bool:
    """Tell whether another task evaluates: dtfctl's clusters say so, TensorFlow's TF_CONFIG has chiefs for it."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster") or {}
    return TaskType.EVALUATOR in cluster or TaskType.CHIEF in cluster


def _server(estimator: Estimator) -> Any:
    """Start this task's server, or find the one that runs already; the estimator's sessions are its."""
    config = estimator.config
    if not config.master:
        return None
    server = tf.train.Server(
        config.cluster_spec, job_name=config.task_type, task_index=config.task_id, config=config.session_config
    )
    estimator._master = server.target
    return server


class _Evaluator:
    """Evaluates each checkpoint once, and asks the exporters."""

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._last: str | None = None
        self.results: tuple[Any, Any] = (None, [])

    def evaluate(self) -> bool:
        """Evaluate the newest checkpoint, if it is new; tells whether that was done."""
        path = self._estimator.latest_checkpoint()
        if not path or path == self._last:
            return False
        spec = self._spec
        try:
            metrics = self._estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, path, spec.name)
        except (ValueError, tf.errors.OpError):
            if tf.train.checkpoint_exists(path):
                raise
            # Training saves faster than is evaluated, and keeps only the newest.
            tf.logging.warning("%s was deleted before it was evaluated; the next one is.", path)
            return False
        final = self._max_steps is not None and metrics["global_step"] >= self._max_steps
        exported = []
        for exporter in spec.exporters:
            folder = os.path.join(self._estimator.model_dir, "export", exporter.name)
            exported.append(exporter.export(self._estimator, folder, path, metrics, final))
        self._last, self.results = path, (metrics, exported)
        return True


class _EvaluatingListener(CheckpointSaverListener):
    """Evaluates after checkpoints, but the first, and at the end."""

    def __init__(self, evaluator: _Evaluator, throttle_secs: float) -> None:
        self._evaluator, self._throttle_secs = evaluator, throttle_secs

    def begin(self) -> None:
        self._timer = tf.train.SecondOrStepTimer(every_secs=self._throttle_secs)
        self._first = True

    def after_save(self, session: Any, global_step_value: Any) -> None:
        """Evaluate, unless it is too early."""
        if self._first:
            self._first = False
        elif self._timer.should_trigger_for_step(global_step_value):
            self._evaluate(global_step_value)

    def end(self, session: Any, global_step_value: Any) -> None:
        """Evaluate what the last save left."""
        if global_step_value != self._timer.last_triggered_step():
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> None:
        self._timer.update_last_triggered_step(step)
        self._evaluator.evaluate()


def _train_and_evaluate_here(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[_EvaluatingListener(evaluator, eval_spec.throttle_secs)],
    )
    return evaluator.results


def _evaluate_until_the_end(estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec) -> Any:
    time.sleep(eval_spec.start_delay_secs)
    evaluator = _Evaluator(estimator, eval_spec, train_spec.max_steps)
    while True:
        begun = time.monotonic()
        evaluator.evaluate()
        metrics = evaluator.results[0]
        if metrics is not None and train_spec.max_steps and metrics["global_step"] >= train_spec.max_steps:
            return evaluator.results
        # A checkpoint is looked for no more than once a second.
        time.sleep(max(1.0, eval_spec.throttle_secs - (time.monotonic() - begun)))
