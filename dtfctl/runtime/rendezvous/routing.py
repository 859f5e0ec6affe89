"""A step's rendezvous in a cluster: sends to another task are pushed to it, all else meets in this task's table."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.rendezvous.transports.base import Transport


class RoutingRendezvous:
    """A kernels.context.Rendezvous for one step of one task."""

    __slots__ = ("_prefix", "_step", "_table", "_transport", "recv", "recv_async")

    def __init__(self, table: LocalRendezvous, step: int, task: str, transport: Transport) -> None:
        self._table = table
        self._step = step
        self._prefix = task + "/"
        self._transport = transport
        self.recv = table.recv
        self.recv_async = table.recv_async

    def send(self, key: str, value: Any, dead: bool) -> None:
        """Leave a value here, or have it on its way to the task in the key; never waits.

        Raises:
            OpError: the value cannot leave this task, or the other one is known to be down.
        """
        if not key.startswith("client;"):
            device = key.split(";", 3)[2]
            if not device.startswith(self._prefix):
                self._transport.push(task_of_device(device), self._step, key, value, dead)
                return
        self._table.send(key, value, dead)


def task_of_device(device: str) -> str:
    """The task part of a full device name.

    >>> task_of_device("/job:ps/replica:0/task:0/device:CPU:0")
    '/job:ps/replica:0/task:0'
    """
    return device[: device.rindex("/")]
