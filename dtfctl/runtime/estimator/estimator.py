"""`Estimator`: a model function, trained, evaluated, asked and exported; each time in a graph of its own."""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.evaluation import StopAfterNEvalsHook, evaluate_once, write_results
from dtfctl.runtime.estimator.export.outputs import signatures
from dtfctl.runtime.estimator.functions import arguments, call_input_fn
from dtfctl.runtime.estimator.modes import ModeKeys, TaskType
from dtfctl.runtime.estimator.predictions import chosen, examples
from dtfctl.runtime.estimator.replicas import losses_divided, replicated
from dtfctl.runtime.estimator.run_config import RunConfig
from dtfctl.runtime.estimator.spec import EstimatorSpec
from dtfctl.runtime.estimator.warm import WarmStartSettings, warm_start_settings

_MODEL_FN_ARGUMENTS = {"features", "labels", "mode", "params", "self", "config"}


class Estimator:
    """A model that is trained, evaluated and asked for predictions.

    Args:
        model_fn: called with features, and labels, mode, params and config where it takes them; gives an EstimatorSpec.
        model_dir: the folder of checkpoints and summaries; a temporary one when neither this nor the config says it.
        config: a RunConfig.
        params: passed to `model_fn`.
        warm_start_from: a checkpoint, a folder, or WarmStartSettings: where variables begin.

    Raises:
        ValueError: `model_fn` takes what is not known, or two folders are named.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: Any = None,
    ) -> None:
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        self._config = with_folder(config, None if model_dir is None else os.fspath(model_dir))
        if self._config.session_config is None:
            self._config = self._config.replace(session_config=tf.ConfigProto(allow_soft_placement=True))
        self._model_dir: str = self._config.model_dir or ""
        takes = arguments(model_fn)
        if "features" not in takes:
            raise ValueError(f"model_fn ({model_fn}) must include features argument.")
        if params is not None and "params" not in takes:
            raise ValueError(
                f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to Estimator."
            )
        if unknown := takes - _MODEL_FN_ARGUMENTS:
            raise ValueError(f"model_fn ({model_fn}) has following not expected args: {sorted(unknown)}")
        self._model_fn, self._params = model_fn, copy.deepcopy(params or {})
        self._warm_start: WarmStartSettings | None = warm_start_settings(warm_start_from)
        self._master = self._config.master

    @property
    def model_dir(self) -> str:
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        return copy.copy(self._config)

    @property
    def params(self) -> Any:
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model function with the arguments features, labels, mode and config."""

        def public(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, config)

        return public

    def get_variable_value(self, name: str) -> Any:
        """Return a variable's value in the newest checkpoint.

        Raises:
            ValueError: there is no checkpoint yet.
        """
        self._require_checkpoint()
        return tf.train.load_variable(self._model_dir, name)

    def get_variable_names(self) -> list[str]:
        """Return the names of the newest checkpoint's variables.

        Raises:
            ValueError: there is no checkpoint yet.
        """
        self._require_checkpoint()
        return [name for name, _ in tf.train.list_variables(self._model_dir)]

    def latest_checkpoint(self) -> str | None:
        """Return the newest checkpoint, or None."""
        found: str | None = tf.train.latest_checkpoint(self._model_dir)
        return found

    def eval_dir(self, name: str | None = None) -> str:
        """Return the folder of an evaluation's summaries."""
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Any = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Estimator:
        """Train until the input ends, for `steps` more steps, or up to step `max_steps`.

        Args:
            input_fn: gives a Dataset, features, or (features, labels); called with mode, params and config where it
                takes them.
            hooks: run with the session.
            saving_listeners: called when checkpoints are saved.

        Raises:
            ValueError: both numbers are given, one is below 1, or this task does not train.
        """
        if self._config.task_type in (TaskType.EVALUATOR, TaskType.PS):
            raise ValueError(
                "Train has been called wrong configuration. Please use tf.estimator.train_and_evaluate which calls "
                f"proper API according to given configuration. Current task: {self._config.task_type}."
            )
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, count in (("steps", steps), ("max_steps", max_steps)):
            if count is not None and count <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {count}")
        if max_steps is not None and max_steps <= self._saved_step():
            tf.logging.info("Skipping training since max_steps has already saved.")
            return self
        all_hooks = _checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            all_hooks.append(tf.train.StopAtStepHook(steps, max_steps))
        for listener in saving_listeners or ():
            if not isinstance(listener, tf.train.CheckpointSaverListener):
                raise TypeError(f"saving_listeners must be a list of CheckpointSaverListener, given: {listener}")
        loss = self._train(input_fn, all_hooks, list(saving_listeners or ()))
        tf.logging.info("Loss for final step: %s.", loss)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluate the newest checkpoint, or another.

        Args:
            steps: batches; until the input ends when None.
            name: of this evaluation, for its folder of summaries.

        Returns:
            The metrics by name, "loss" and "global_step".
        """
        all_hooks = _checked_hooks(hooks)
        if steps is not None:
            if steps <= 0:
                raise ValueError(f"Must specify steps > 0, given: {steps}")
            all_hooks.append(StopAfterNEvalsHook(steps))
        path = checkpoint_path or self.latest_checkpoint()
        if not path:
            tf.logging.info("There is no trained model in %s: it is initialized to be evaluated.", self._model_dir)
        with tf.Graph().as_default():
            step = self._begin_graph()
            features, labels, input_hooks = self._input(input_fn, ModeKeys.EVAL)
            spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self.config)
            metrics = dict(spec.eval_metric_ops)
            for key in ("loss", "global_step"):
                if key in metrics:
                    raise ValueError(
                        f'Metric with name "{key}" is not allowed, because Estimator already defines a default '
                        "metric with the same name."
                    )
            metrics["loss"] = tf.metrics.mean(spec.loss)
            values = {key: value for key, (value, _) in sorted(metrics.items())}
            update = tf.group(*(update for _, (_, update) in sorted(metrics.items())))
            self._maybe_warm_start(path)
            scaffold = spec.scaffold
            if scaffold.local_init_op is not None:
                both = tf.group(scaffold.local_init_op, tf.train.Scaffold.default_local_init_op())
                scaffold = tf.train.Scaffold(local_init_op=both, copy_from_scaffold=scaffold)
            results = evaluate_once(
                path,
                self._config.evaluation_master,
                scaffold,
                update,
                {**values, "global_step": step},
                [*input_hooks, *all_hooks, *spec.evaluation_hooks],
                self._config.session_config,
            )
        write_results(self.eval_dir(name), results, path)
        return results

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yield predictions for each example, or for each batch.

        Args:
            predict_keys: which predictions; all when None.
        """
        all_hooks = _checked_hooks(hooks)
        path = checkpoint_path or self.latest_checkpoint()
        if not path:
            tf.logging.info("There is no trained model in %s: it is initialized to predict.", self._model_dir)
        with tf.Graph().as_default():
            self._begin_graph()
            features, _, input_hooks = self._input(input_fn, ModeKeys.PREDICT)
            if not input_hooks and not tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
                tf.logging.warning(
                    "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict yields "
                    "forever. This is probably a mistake."
                )
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self.config)
            self._maybe_warm_start(path)
            predictions = chosen(spec.predictions, predict_keys)
            creator = tf.train.ChiefSessionCreator(
                checkpoint_filename_with_path=path,
                master=self._master,
                scaffold=spec.scaffold,
                config=self._config.session_config,
            )
            everyone = [*input_hooks, *all_hooks, *spec.prediction_hooks]
            with tf.train.MonitoredSession(session_creator=creator, hooks=everyone) as session:
                while not session.should_stop():
                    batch = session.run(predictions)
                    if yield_single_examples:
                        yield from examples(batch)
                    else:
                        yield batch

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
        strip_default_attrs: bool = True,
    ) -> bytes:
        """Write a SavedModel of a checkpoint into a folder named by the time.

        Args:
            serving_input_receiver_fn: makes what the model is fed, a ServingInputReceiver.
            assets_extra: files to copy into it, by their paths in assets.extra.

        Returns:
            The folder's path.

        Raises:
            ValueError: there is no checkpoint, or no function.
        """
        if not callable(serving_input_receiver_fn):
            raise ValueError("An input_receiver_fn must be defined.")
        if experimental_mode != ModeKeys.PREDICT:
            raise ValueError(f"models are exported for prediction, not for {experimental_mode}")
        path = checkpoint_path or self.latest_checkpoint()
        if not path and self._warm_start is not None:
            path = self._warm_start.checkpoint()
        if not path:
            raise ValueError(f"Couldn't find trained model at {self._model_dir}.")
        folder = _new_folder(os.fsdecode(export_dir_base))
        unfinished = os.path.join(os.path.dirname(folder), f"temp-{os.path.basename(folder)}")
        builder = tf.saved_model.Builder(unfinished)
        with tf.Graph().as_default():
            self._begin_graph()
            receiver = serving_input_receiver_fn()
            spec = self._call_model_fn(receiver.features, None, ModeKeys.PREDICT, self.config)
            alternatives = getattr(receiver, "receiver_tensors_alternatives", None)
            made = signatures(receiver.receiver_tensors, spec.export_outputs or {}, alternatives)
            main_op = spec.scaffold.local_init_op
            if main_op is None:
                main_op = tf.train.Scaffold.default_local_init_op()
            saver = spec.scaffold.saver or tf.train.Saver(sharded=True)
            with tf.Session(config=self._config.session_config) as session:
                saver.restore(session, path)
                builder.add_meta_graph_and_variables(
                    session,
                    [tf.saved_model.tag_constants.SERVING],
                    made,
                    tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
                    main_op=main_op,
                    strip_default_attrs=strip_default_attrs,
                    saver=saver,
                )
        builder.save(as_text)
        for name, source in (assets_extra or {}).items():
            target = os.path.join(unfinished, "assets.extra", name)
            tf.gfile.MakeDirs(os.path.dirname(target))
            tf.gfile.Copy(source, target)
        os.rename(unfinished, folder)
        return folder.encode()

    export_savedmodel = export_saved_model

    def _begin_graph(self) -> Any:
        """Begin a graph; gives its global step."""
        tf.set_random_seed(self._config.tf_random_seed)
        return tf.train.create_global_step()

    def _input(self, input_fn: Callable[..., Any], mode: str) -> tuple[Any, Any, list[Any]]:
        """Call an input function; gives features, labels or None, and hooks that start the input."""
        return call_input_fn(input_fn, {"mode": mode, "params": self.params, "config": self.config})

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        takes = arguments(self._model_fn)
        offered = {"labels": labels, "mode": mode, "params": self.params, "config": config}
        if "labels" not in takes and labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        spec = self._model_fn(features=features, **{k: v for k, v in offered.items() if k in takes})
        if not isinstance(spec, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return spec

    def _train(self, input_fn: Callable[..., Any], hooks: list[Any], listeners: list[Any]) -> Any:
        config = self._config
        with tf.Graph().as_default() as graph, contextlib.ExitStack() as placed:
            if config.train_distribute is None:
                placed.enter_context(graph.device(config.device_fn or _placement(config)))
            else:
                placed.enter_context(config.train_distribute.scope())
                placed.enter_context(losses_divided(config.train_distribute))
            step = self._begin_graph()
            if config.train_distribute is None:
                features, labels, input_hooks = self._input(input_fn, ModeKeys.TRAIN)
                spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, self.config)
            else:
                offered = {"mode": ModeKeys.TRAIN, "params": self.params, "config": self.config}
                spec, input_hooks = replicated(
                    config.train_distribute,
                    input_fn,
                    offered,
                    lambda features, labels: self._call_model_fn(features, labels, ModeKeys.TRAIN, self.config),
                )
            if self._warm_start is not None:
                self._warm_start.apply()
            if not any(t.op.name == "loss" for t in tf.get_collection(tf.GraphKeys.SUMMARIES)):
                tf.summary.scalar("loss", spec.loss)
            tf.add_to_collection(tf.GraphKeys.LOSSES, spec.loss)
            everyone = [*input_hooks, *hooks, tf.train.NanTensorHook(spec.loss)]
            if config.log_step_count_steps is not None:
                shown = {"loss": spec.loss, "step": step}
                everyone.append(tf.train.LoggingTensorHook(shown, every_n_iter=config.log_step_count_steps))
            everyone += spec.training_hooks
            if not (spec.scaffold.saver or tf.get_collection(tf.GraphKeys.SAVERS)):
                saver = tf.train.Saver(
                    sharded=True,
                    max_to_keep=config.keep_checkpoint_max,
                    keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
                    defer_build=True,
                    save_relative_paths=True,
                )
                tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
            with tf.train.MonitoredTrainingSession(
                master=self._master,
                is_chief=config.is_chief,
                checkpoint_dir=self._model_dir,
                scaffold=spec.scaffold,
                hooks=everyone,
                chief_only_hooks=[
                    *self._saver_hooks([*everyone, *spec.training_chief_hooks], spec.scaffold, listeners),
                    *spec.training_chief_hooks,
                ],
                save_checkpoint_secs=None,
                save_checkpoint_steps=None,
                save_summaries_steps=config.save_summary_steps,
                config=config.session_config,
                max_wait_secs=config.session_creation_timeout_secs,
                log_step_count_steps=config.log_step_count_steps,
            ) as session:
                loss, any_step = None, False
                while not session.should_stop():
                    _, loss = session.run([spec.train_op, spec.loss])
                    any_step = True
            if not any_step:
                tf.logging.warning("Training with estimator made no steps. Perhaps input is empty or misspecified.")
            return loss

    def _saver_hooks(self, hooks: list[Any], scaffold: Any, listeners: list[Any]) -> list[Any]:
        """Make the hook that saves checkpoints, unless there is one; listeners are told by it."""
        config = self._config
        there = [hook for hook in hooks if isinstance(hook, tf.train.CheckpointSaverHook)]
        made = []
        if not there and (config.save_checkpoints_secs or config.save_checkpoints_steps):
            made = [
                tf.train.CheckpointSaverHook(
                    self._model_dir,
                    save_secs=config.save_checkpoints_secs,
                    save_steps=config.save_checkpoints_steps,
                    scaffold=scaffold,
                )
            ]
        if listeners:
            if not there and not made:
                raise ValueError(
                    "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                    "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
                )
            told = [*there, *made][0]
            told._listeners += [listener for listener in listeners if listener not in told._listeners]
        return made

    def _maybe_warm_start(self, checkpoint_path: str | None) -> None:
        if not checkpoint_path and self._warm_start is not None:
            self._warm_start.apply()

    def _require_checkpoint(self) -> None:
        if not self.latest_checkpoint():
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")

    def _saved_step(self) -> int:
        path = self.latest_checkpoint()
        return int(tf.train.load_variable(path, "global_step")) if path else 0


def with_folder(config: RunConfig | None, model_dir: str | None) -> RunConfig:
    """Give a configuration its folder: this one, its own, or a temporary one."""
    config = RunConfig() if config is None else config
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if model_dir and config.model_dir and model_dir != config.model_dir:
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. In constructor: "
            f"'{model_dir}', in `RunConfig`: '{config.model_dir}' "
        )
    if not model_dir and not config.model_dir:
        model_dir = tempfile.mkdtemp()
        tf.logging.warning("Using temporary folder as model directory: %s", model_dir)
    return config.replace(model_dir=model_dir) if model_dir else config


def _placement(config: RunConfig) -> Any:
    if not config.num_ps_replicas:
        return None
    return tf.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        merge_devices=True,
        cluster=config.cluster_spec,
    )


def _checked_hooks(hooks: Any) -> list[Any]:
    found = list(hooks or ())
    for hook in found:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return found


def _new_folder(base: str) -> str:
    """Return a folder that is not there yet, named by the time in seconds."""
    number = int(time.time())
    while os.path.exists(os.path.join(base, str(number))):
        number += 1
    return os.path.join(base, str(number))
