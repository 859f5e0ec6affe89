"""`RunConfig`: where a model is kept, how often it is saved, and which task this is."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.modes import TaskType
from dtfctl.runtime.estimator.replicas import check_strategy
from dtfctl.runtime.train.checkpoint_defaults import how_many, how_often

_UNSET: Any = object()
_GIVEN = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "device_fn",
    "protocol",
    "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs",
)
_BOTH = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."


class RunConfig:
    """The configuration of an estimator; the task is read from TF_CONFIG.

    Where TF_CONFIG names a cluster without a chief, as that of `dtfctl submit` does, worker 0 is the chief.

    Args:
        model_dir: the folder of checkpoints and summaries.
        save_summary_steps, save_checkpoints_steps, log_step_count_steps: every how many steps.
        save_checkpoints_secs: every how many seconds. When neither this nor the steps are given, what
            `checkpoints` of the cluster file says in a job, else 600.
        session_config: of all sessions.
        keep_checkpoint_max: how many checkpoints are kept; None keeps all. When it is not given, what
            `checkpoints` of the cluster file says in a job, else 5.
        train_distribute: a `tf.distribute.Strategy` to train by; each replica gets batches of its own.
        eval_distribute: must be None.
        experimental_distribute: an object with these two as attributes.

    Raises:
        ValueError: a value is out of range, two contradict each other, or TF_CONFIG does.
    """

    model_dir: str | None
    tf_random_seed: int | None
    save_summary_steps: int
    save_checkpoints_steps: int | None
    save_checkpoints_secs: float | None
    experimental_max_worker_delay_secs: float | None
    session_config: Any
    keep_checkpoint_max: int | None
    keep_checkpoint_every_n_hours: float
    log_step_count_steps: int | None
    device_fn: Any
    protocol: str | None
    session_creation_timeout_secs: float
    global_id_in_cluster: int | None

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int = 100,
        save_checkpoints_steps: Any = _UNSET,
        save_checkpoints_secs: Any = _UNSET,
        session_config: Any = None,
        keep_checkpoint_max: Any = _UNSET,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = 7200,
    ) -> None:
        if experimental_distribute is not None:
            train_distribute = train_distribute or getattr(experimental_distribute, "train_distribute", None)
            eval_distribute = eval_distribute or getattr(experimental_distribute, "eval_distribute", None)
        check_strategy(train_distribute, eval_distribute)
        if save_checkpoints_steps is _UNSET and save_checkpoints_secs is _UNSET:
            save_checkpoints_steps, save_checkpoints_secs = how_often()
        if keep_checkpoint_max is _UNSET:
            keep_checkpoint_max = how_many(outside_a_job=5)
        save_checkpoints_steps = None if save_checkpoints_steps is _UNSET else save_checkpoints_steps
        save_checkpoints_secs = None if save_checkpoints_secs is _UNSET else save_checkpoints_secs
        if save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError(_BOTH)
        said = json.loads(os.environ.get("TF_CONFIG") or "{}")
        given = locals()
        for key in _GIVEN:
            setattr(self, key, given[key])
        self.model_dir = _model_dir(said, None if model_dir is None else os.fspath(model_dir))
        self.train_distribute = train_distribute
        self.eval_distribute = self.experimental_distribute = None
        self._check()
        self._read_task(said)

    def _check(self) -> None:
        def require(key: str, holds: Any, what: str) -> None:
            value = getattr(self, key)
            if value is not None and not holds(value):
                raise ValueError(f"{key} {what}")

        require("model_dir", bool, "should be non-empty")
        for key in ("save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs", "keep_checkpoint_max"):
            require(key, lambda n: n >= 0, "should be >= 0")
        for key in ("keep_checkpoint_every_n_hours", "log_step_count_steps", "session_creation_timeout_secs"):
            require(key, lambda n: n > 0, "should be > 0")
        require("session_config", lambda c: isinstance(c, tf.ConfigProto), "must be instance of ConfigProto")
        require("tf_random_seed", lambda n: isinstance(n, int), "must be integer.")
        require("device_fn", callable, 'must be callable with exactly one argument "op".')

    def _read_task(self, said: dict[str, Any]) -> None:
        """Take from TF_CONFIG which task this is."""
        self.cluster_spec = tf.train.ClusterSpec(said.get("cluster") or {})
        self.service = said.get("service")
        task = said.get("task") or {}
        cluster = self.cluster_spec.as_dict()
        self.evaluation_master = said.get("eval_session_master", "")
        if not cluster:
            self.task_type, self.task_id = task.get("type", TaskType.WORKER), int(task.get("index", 0))
            if self.task_type not in (TaskType.WORKER, TaskType.EVALUATOR) or self.task_id != 0:
                raise ValueError('If "cluster" is not set in TF_CONFIG, the task must be worker 0.')
            self.master, self.is_chief = said.get("session_master", ""), True
            self.num_ps_replicas, self.num_worker_replicas, self.global_id_in_cluster = 0, 1, 0
            return
        self.task_type, self.task_id = _task(cluster, task)
        if self.task_type == TaskType.EVALUATOR:
            self.cluster_spec = tf.train.ClusterSpec({})
            self.master, self.is_chief, self.global_id_in_cluster = "", False, None
            self.num_ps_replicas, self.num_worker_replicas = 0, 0
            return
        chief = _chief(cluster)
        self.is_chief = (self.task_type, self.task_id) == chief
        order = sorted(cluster, key=lambda job: (job != chief[0], job == TaskType.PS, job))
        before = order[: order.index(self.task_type)]
        self.global_id_in_cluster = sum(len(cluster[job]) for job in before) + self.task_id
        self.num_ps_replicas = len(cluster.get(TaskType.PS, []))
        self.num_worker_replicas = sum(
            len(cluster.get(job, [])) for job in (TaskType.WORKER, TaskType.CHIEF, TaskType.MASTER)
        )
        alone = sum(map(len, cluster.values())) == 1
        own = "" if alone else f"grpc://{self.cluster_spec.task_address(self.task_type, self.task_id)}"
        self.master = said.get("session_master", own)
        if not self.session_config:
            filters = [f"/job:{TaskType.PS}", f"/job:{self.task_type}"]
            if self.task_type == TaskType.WORKER:
                filters[1] += f"/task:{self.task_id}"
            if self.task_type == TaskType.PS:
                filters = [f"/job:{job}" for job in (TaskType.PS, TaskType.WORKER, TaskType.CHIEF, TaskType.MASTER)]
            self.session_config = tf.ConfigProto(allow_soft_placement=True, device_filters=filters)

    def replace(self, **kwargs: Any) -> RunConfig:
        """Make a copy with other values.

        Raises:
            ValueError: a key cannot be replaced, or a value is out of range.
        """
        for key in kwargs:
            if key not in _GIVEN:
                raise ValueError(f"Replacing {key} is not supported. Allowed properties are {list(_GIVEN)}.")
        made = copy.copy(self)
        for key, value in kwargs.items():
            setattr(made, key, value)
        steps, secs = kwargs.get("save_checkpoints_steps"), kwargs.get("save_checkpoints_secs")
        if steps is not None and secs is not None:
            raise ValueError(_BOTH)
        if steps is not None:
            made.save_checkpoints_secs = None
        if secs is not None:
            made.save_checkpoints_steps = None
        made._check()
        return made


def _model_dir(said: dict[str, Any], given: str | None) -> str | None:
    there: str | None = said.get("model_dir")
    if there == "":
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    if there and given and there != given:
        raise ValueError(
            f"`model_dir` provided in RunConfig construct, if set, must have the same value as the model_dir in "
            f"TF_CONFIG. model_dir: {given}\nTF_CONFIG[model_dir]: {there}."
        )
    return given if given is not None else there


def _chief(cluster: dict[str, Any]) -> tuple[str, int]:
    """Say which task is the chief: of the cluster's chief, master and worker 0 the first that is there."""
    for job in (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER):
        if job in cluster:
            if job != TaskType.WORKER and len(cluster[job]) > 1:
                raise ValueError(f'The "cluster" in TF_CONFIG must have only one "{job}" node.')
            return job, 0
    raise ValueError('If "cluster" is set in TF_CONFIG, it must have a "chief" or "worker" node.')


def _task(cluster: dict[str, Any], task: dict[str, Any]) -> tuple[str, int]:
    kind, index = task.get("type"), task.get("index")
    if not kind:
        raise ValueError('If "cluster" is set in TF_CONFIG, task type must be set.')
    if index is None:
        raise ValueError('If "cluster" is set in TF_CONFIG, task index must be set.')
    if kind == TaskType.EVALUATOR:
        return kind, int(index)
    if kind not in cluster:
        raise ValueError(f"{kind} is not a valid task_type in the cluster_spec:\n{cluster}")
    if not 0 <= int(index) < len(cluster[kind]):
        raise ValueError(f"{index} is not a valid task_id for task_type {kind} in the cluster_spec:\n{cluster}")
    return kind, int(index)
