"""What a job's client process knows of its cluster, from the environment its launcher set."""

from __future__ import annotations

import json
import os
from typing import Any

from dtfctl.runtime.train.server_lib import TARGET_VARIABLE, ClusterSpec


class TFConfigClusterResolver:
    """Reads TF_CONFIG: {"cluster": {job: [addresses]}, "task": {"type": job, "index": n}}.

    Under `dtfctl submit` TF_CONFIG describes the cluster's running tasks, and `master()` the task of this process.

    Args:
        task_type, task_id, rpc_layer: override what TF_CONFIG says.

    Raises:
        ValueError: TF_CONFIG is not JSON of that form.
    """

    def __init__(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> None:
        text = os.environ.get("TF_CONFIG", "{}")
        try:
            self._config = json.loads(text)
        except json.JSONDecodeError as e:
            raise ValueError(f"TF_CONFIG is not JSON: {e}") from e
        if not isinstance(self._config, dict):
            raise ValueError("TF_CONFIG must be a JSON object")
        task = self._config.get("task", {})
        self._task_type = task_type or task.get("type")
        self._task_id = task_id if task_id is not None else task.get("index")
        self._rpc_layer = rpc_layer or self._config.get("rpc_layer", "grpc")

    @property
    def task_type(self) -> str | None:
        return self._task_type

    @property
    def task_id(self) -> int | None:
        return None if self._task_id is None else int(self._task_id)

    @property
    def rpc_layer(self) -> str:
        return str(self._rpc_layer)

    @property
    def environment(self) -> str:
        return str(self._config.get("environment", ""))

    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec(self._config.get("cluster", {}))

    @property
    def is_chief(self) -> bool:
        """Whether this process initializes and saves: the chief, or worker 0 when there is none."""
        if "chief" in self._config.get("cluster", {}):
            return self._task_type == "chief"
        return self._task_type in (None, "worker") and (self.task_id or 0) == 0

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Return the session target: this process's own task, or the address of another; "" without a cluster."""
        own = task_type in (None, self._task_type) and task_id in (None, self._task_id)
        if own and os.environ.get(TARGET_VARIABLE):
            return os.environ[TARGET_VARIABLE]
        spec = self.cluster_spec()
        job, index = task_type or self._task_type, task_id if task_id is not None else self._task_id
        if not spec or job is None or index is None:
            return ""
        layer = rpc_layer or self.rpc_layer
        address = spec.task_address(job, int(index))
        return f"{layer}://{address}" if layer else str(address)

    def num_accelerators(self, *unused: Any, **also_unused: Any) -> dict[str, int]:
        return {}


class SimpleClusterResolver:
    """Says what it is told.

    Args:
        cluster_spec: the tasks of the cluster. master: a session's target in this process.
        task_type, task_id: this process's own task.
    """

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Any = None,
        rpc_layer: str | None = None,
    ) -> None:
        self._cluster, self._master = ClusterSpec(cluster_spec), master
        self.task_type, self.task_id = task_type, task_id
        self.environment, self.rpc_layer = environment, rpc_layer
        self._accelerators = dict(num_accelerators or {})

    def cluster_spec(self) -> ClusterSpec:
        return self._cluster

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """Return the session target: that of another task where one is named."""
        if task_type is None or task_id is None:
            return self._master
        layer = rpc_layer or self.rpc_layer
        address = self._cluster.task_address(task_type, task_id)
        return f"{layer}://{address}" if layer else str(address)

    def num_accelerators(self, *unused: Any, **also_unused: Any) -> dict[str, int]:
        return self._accelerators
