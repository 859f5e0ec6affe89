"""`tf.estimator.tpu`: the estimator of programs that run on TPUs where there are some, for them to run without."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.estimator import Estimator
from dtfctl.runtime.estimator.modes import ModeKeys
from dtfctl.runtime.estimator.run_config import RunConfig as _RunConfig
from dtfctl.runtime.estimator.spec import EstimatorSpec

__all__ = [
    "CrossShardOptimizer",
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
]


class InputPipelineConfig(IntEnum):
    """Where a TPU's input is made; without TPUs it is made by the task that trains."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


@dataclass(frozen=True)
class TPUConfig:
    """What would configure TPUs."""

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None


class RunConfig(_RunConfig):
    """`tf.estimator.RunConfig`, with what would configure TPUs.

    Raises:
        ValueError: a cluster of TPUs is named, or a value is out of range.
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        if cluster is not None:
            raise ValueError("cluster must be None: there are no TPUs here; TF_CONFIG names the tasks")
        super().__init__(**kwargs)
        self.tpu_config = tpu_config or TPUConfig()
        self.cluster = None
        # Programs pass their flag on, which is empty where there is no TPU.
        self._tpu_masters = (master or "", evaluation_master or master or "")
        if any(self._tpu_masters):
            raise ValueError(f"master {master!r} names a TPU's host: there are none here; TF_CONFIG names the tasks")


class _Fields(NamedTuple):
    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: Any = None
    export_outputs: Any = None
    scaffold_fn: Any = None
    host_call: Any = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None


class TPUEstimatorSpec(_Fields):
    """What a model function gives; `eval_metrics` is a function with its arguments, `scaffold_fn` a Scaffold's."""

    def as_estimator_spec(self) -> EstimatorSpec:
        """Call the functions, for an estimator without TPUs."""
        host = _called(self.host_call)
        train_op = self.train_op
        if host is not None and train_op is not None:
            with tf.control_dependencies([train_op]):
                train_op = tf.group(train_op, *tf.nest.flatten(host))
        return EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=train_op,
            eval_metric_ops=_called(self.eval_metrics),
            export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=self.training_hooks,
            evaluation_hooks=self.evaluation_hooks,
            prediction_hooks=self.prediction_hooks,
        )


def _called(pair: Any) -> Any:
    """Call a function given with its arguments: a list, or by name."""
    if pair is None:
        return None
    function, given = pair
    return function(**given) if isinstance(given, Mapping) else function(*given)


class TPUEstimator(Estimator):
    """`tf.estimator.Estimator` for programs that may use TPUs: `use_tpu` must be False.

    Args:
        model_fn: gives a TPUEstimatorSpec or an EstimatorSpec; `params["batch_size"]` is that of its mode.
        train_batch_size, eval_batch_size, predict_batch_size: what `params["batch_size"]` is.

    Raises:
        ValueError: `use_tpu` is True, or `params` has a "batch_size".
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: Any = None,
        params: Mapping[str, Any] | None = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        warm_start_from: Any = None,
        **kwargs: Any,
    ) -> None:
        if use_tpu:
            raise ValueError("use_tpu must be False: there are no TPUs here")
        if params is not None and "batch_size" in params:
            raise ValueError("params cannot have batch_size: it is the estimator's, by mode")
        self._sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        super().__init__(_plain(model_fn), model_dir, config, dict(params or {}), warm_start_from)

    def _input(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any, list[Any]]:
        with self._sized(mode):
            return super()._input(input_fn, mode)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        with self._sized(mode):
            return super()._call_model_fn(features, labels, mode, config)

    @contextmanager
    def _sized(self, mode: str) -> Iterator[None]:
        """Let `params["batch_size"]` be that of a mode within the block."""
        before, size = self._params, self._sizes.get(mode)
        self._params = before if size is None else {**before, "batch_size": size}
        try:
            yield
        finally:
            self._params = before


def _plain(model_fn: Callable[..., Any]) -> Callable[..., EstimatorSpec]:
    """Let a model function that gives TPUEstimatorSpecs give EstimatorSpecs."""

    @functools.wraps(model_fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        spec = model_fn(*args, **kwargs)
        return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

    return called


class CrossShardOptimizer:
    """The optimizer of a TPU's shards, which is refused here."""

    def __init__(self, opt: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("CrossShardOptimizer: there are no TPUs here; use the optimizer itself")
