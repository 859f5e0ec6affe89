"""Answering as the leader of groups: to tasks of ours by messages, to TensorFlow's servers by their calls."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dtfctl.protocol import tensorflow_worker_pb2, worker_pb2
from dtfctl.runtime.collective.leader import Answer, Leader
from dtfctl.runtime.collective.mixed import Answered, Hear, Mixed, foreign, is_foreign
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, OpError, error_from_code
from dtfctl.runtime.rendezvous.routing import task_of_device

log = logging.getLogger(__name__)
_NEWS = 4


class Leading:
    """Groups that this task leads. All methods may be called from any thread.

    Args:
        task: this one.
        tell: sends to a task of ours.
        mixed: passes on what TensorFlow's servers are answered.

    Attributes:
        news: what a person is to know, the newest at the end, each with a number of its own.
    """

    def __init__(self, task: str, tell: Hear, mixed: Mixed) -> None:
        self._task = task
        self._tell = tell
        self._mixed = mixed
        self._lock = threading.Lock()
        self._leader = Leader(is_foreign=is_foreign)
        self._told = 0
        self.news: tuple[str, ...] = ()

    @property
    def groups(self) -> int:
        """Count the groups that are led from here, those aside that wait for foreign members."""
        with self._lock:
            return self._leader.groups

    def asked(self, task: str, message: worker_pb2.CollectiveMessage) -> None:
        """Take what a task of ours asks.

        Raises:
            InvalidArgumentError: it asks for a device that is not one of its own.
        """
        kind = message.WhichOneof("kind")
        answers: list[Answer] = []
        with self._lock:
            if kind == "links_seen":
                answers = self._leader.links_seen(task, message.links_seen, time.monotonic())
            elif kind == "paused":
                answers, text = self._leader.paused(task, message.paused)
                if text:
                    self._told += 1
                    self.news = (*self.news, f"{self._told} {text}")[-_NEWS:]
                    log.info("%s", text)
            elif kind == "join_group":
                device = message.join_group.device
                if task_of_device(device) != task:
                    raise InvalidArgumentError(f"{task} asks for a group for {device}, not one of its own")
                answers = self._leader.join_group(task, message.join_group)
            elif kind == "join_instance":
                answers = self._leader.join_instance(task, message.join_instance)
            elif kind == "leave_group" and task_of_device(message.leave_group.device) == task:
                self._leader.leave_group(message.leave_group)
        self._post(answers)

    def _post(self, answers: Iterable[Answer]) -> None:
        for task, message in answers:
            if is_foreign(task):
                self._mixed.answered(message)
            else:
                self._tell(task, message)

    def complete_group(self, asked: tensorflow_worker_pb2.CompleteGroupRequest, done: Answered) -> Callable[[], None]:
        """Take the wish of one of TensorFlow's servers to be in a group; see `Mixed.complete_group`."""

        def join(joining: worker_pb2.JoinGroup) -> Callable[[], None]:
            with self._lock:
                answers = self._leader.join_group(foreign(task_of_device(joining.device)), joining)
            self._post(answers)
            return partial(self._withdraw, self._leader.withdraw_group, joining)

        return self._mixed.complete_group(asked, join, done)

    def complete_instance(
        self, asked: tensorflow_worker_pb2.CompleteInstanceRequest, done: Answered
    ) -> Callable[[], None]:
        """Take what one of TensorFlow's servers is about to compute with a group; see `Mixed.complete_instance`."""

        def join(joining: worker_pb2.JoinInstance) -> Callable[[], None]:
            with self._lock:
                answers = self._leader.join_instance(foreign(task_of_device(joining.device)), joining)
            self._post(answers)
            return partial(self._withdraw, self._leader.withdraw_instance, joining)

        with self._lock:
            communicator = self._leader.standing("", asked.group_key)
        if not communicator:
            text = f"group {asked.group_key} not found. This normally means the server has restarted"
            raise FailedPreconditionError(text)
        return self._mixed.complete_instance(asked, communicator, join, done)

    def _withdraw(self, withdraw: Callable[[Any], None], asked: Any) -> None:
        with self._lock:
            withdraw(asked)

    def end(self, communicator: int, error: OpError) -> None:
        """Forget a group that has come apart, of which its members of ours hear from who has found out."""
        with self._lock:
            answers = self._leader.end(communicator, error)
        self._post(answer for answer in answers if is_foreign(answer[0]))

    def pass_on(self, task: str, message: worker_pb2.CollectiveMessage) -> None:
        """Tell the members of a group that is led from here what one of them has said of its end."""
        end = message.end_group
        with self._lock:
            answers = self._leader.end(end.communicator, error_from_code(end.code, end.message))
        self._post(
            (to, answer if is_foreign(to) else message) for to, answer in answers if to not in (task, self._task)
        )

    def lost(self, task: str, error: OpError) -> None:
        """End the groups that a task which is gone was in."""
        with self._lock:
            answers = self._leader.lost(task, error)
        self._post(answers)
