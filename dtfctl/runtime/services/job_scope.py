"""Whose state a session sees, and which tasks, under which names.

A client that belongs to a job says so where it makes its session (metadata `dtf-job` of CreateSession and Reset): then
it sees the named state of that job alone, and where the job has got other tasks than its names say, each stands for
the one it has got. Without it there is one state for all, as in TensorFlow's servers.

>>> scope = JobScope.parse("job=train-1&tasks=ps/0=ps/0,worker/0=worker/2")
>>> scope.name, scope.here("/job:worker/task:0/device:CPU:0")
('train-1', '/job:worker/task:2/device:CPU:0')
>>> scope.there("/job:worker/replica:0/task:2/device:CPU:0")
'/job:worker/replica:0/task:0/device:CPU:0'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dtfctl.protocol import device_pb2, graph_pb2
from dtfctl.runtime.framework.device_spec import DeviceSpec, task_name
from dtfctl.runtime.framework.errors import InvalidArgumentError

METADATA_KEY = "dtf-job"
LONGEST_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PAIR = re.compile(r"([A-Za-z_]\w*)/(\d{1,9})=([A-Za-z_]\w*)/(\d{1,9})")


@dataclass(frozen=True)
class JobScope:
    """A job's view of the cluster.

    Attributes:
        name: the job's id; "" outside of jobs.
        tasks: the job's tasks by its own names, (job, index) to (job, index); empty when it has all, under their names.
    """

    name: str = ""
    tasks: Mapping[tuple[str, int], tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> JobScope:
        """Read the scope from text; InvalidArgumentError where it is malformed."""
        name, _, rest = text.removeprefix("job=").partition("&")
        if not text.startswith("job=") or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            raise InvalidArgumentError(f"Malformed name of a job: {text[:LONGEST_NAME]!r}")
        tasks: dict[tuple[str, int], tuple[str, int]] = {}
        for pair in rest.removeprefix("tasks=").split(",") if rest else ():
            found = _PAIR.fullmatch(pair)
            if found is None:
                raise InvalidArgumentError(f"Malformed tasks of job {name}: {pair[:LONGEST_NAME]!r}")
            tasks[found[1], int(found[2])] = (found[3], int(found[4]))
        if len(set(tasks.values())) != len(tasks):
            raise InvalidArgumentError(f"Two tasks of job {name} stand for the same one")
        return cls(name, tasks)

    @classmethod
    def of_metadata(cls, metadata: Iterable[tuple[str, str | bytes]]) -> JobScope:
        """Find the scope in a call's metadata, everyone's where there is none; InvalidArgumentError if malformed."""
        for key, value in metadata:
            if key == METADATA_KEY:
                return cls.parse(value if isinstance(value, str) else value.decode(errors="replace"))
        return cls()

    def admits(self, task: str) -> bool:
        """Tell whether a task of the cluster ("/job:J/replica:0/task:N") belongs to the job."""
        return not self.tasks or task in {task_name(*real) for real in self.tasks.values()}

    def here(self, device: str) -> str:
        """Name a device, or a filter, as the cluster knows it.

        Raises:
            InvalidArgumentError: the job has no such task.
        """
        if not self.tasks or not device:
            return device
        try:
            spec = DeviceSpec.from_string(device)
        except ValueError:
            return device  # who uses it says what is wrong with it
        if spec.job is None or spec.task is None:
            return device
        real = self.tasks.get((spec.job, spec.task))
        if real is None:
            known = ", ".join(f"{job}/{index}" for job, index in sorted(self.tasks))
            raise InvalidArgumentError(f"{device}: job {self.name} has no task {spec.job}/{spec.task}; it has {known}")
        return replace(spec, job=real[0], task=real[1]).to_string()

    def there(self, device: str) -> str:
        """Name a device as the job knows it."""
        if not self.tasks:
            return device
        spec = DeviceSpec.from_string(device)
        for name, real in self.tasks.items():
            if real == (spec.job, spec.task):
                return replace(spec, job=name[0], task=name[1]).to_string()
        return device

    def graph_here(self, graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
        """Name the devices of a graph as the cluster does; gives the same graph where nothing differs.

        Raises:
            InvalidArgumentError: see `here`.
        """
        if not self.tasks:
            return graph_def
        out = graph_pb2.GraphDef()
        out.CopyFrom(graph_def)
        for node in out.node:
            node.device = self.here(node.device)
        for function in out.library.function:
            for node in function.node_def:
                node.device = self.here(node.device)
        return out

    def devices_there(self, devices: Iterable[device_pb2.DeviceAttributes]) -> list[device_pb2.DeviceAttributes]:
        """List devices under the job's names."""
        out = []
        for device in devices:
            renamed = device_pb2.DeviceAttributes()
            renamed.CopyFrom(device)
            renamed.name = self.there(device.name)
            out.append(renamed)
        return out


EVERYONE = JobScope()
"""Outside of jobs."""
