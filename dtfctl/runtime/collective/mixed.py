"""Groups that TensorFlow's servers and ours are in together: their protocol, spoken by our members and leaders.

Members that are TensorFlow's ask the leader by CompleteGroup, CompleteInstance and GetStepSequence, and fetch what
others send them by RecvBuf; so do ours where the leader, or who sends, is TensorFlow's.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from dtfctl.protocol import tensorflow_worker_pb2, worker_pb2
from dtfctl.runtime.collective.algorithms import Array
from dtfctl.runtime.collective.buffers import Buffers, Fetched
from dtfctl.runtime.collective.communicator import Computation, Member
from dtfctl.runtime.collective.foreign_messages import (
    OURS,
    attributes,
    error_in,
    group_answer,
    number_of,
    packed,
    unpack,
)
from dtfctl.runtime.collective.step_ids import StepIds, Told
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnimplementedError,
)
from dtfctl.runtime.kernels.collective_request import CollectiveRequest

MAX_WAITING = 1 << 16
"""Answers of a task of ours, or of a leader here to foreign members, that are waited for."""
_LONGEST_NAME = 512
_MOST_DIMENSIONS = 254
_TYPES = {"Reduce": 0, "Broadcast": 1, "Gather": 2, "AllToAll": 4, "ReduceScatter": 5}
_KINDS = {number: kind for kind, number in _TYPES.items()}

Answered = Callable[[Any, OpError | None], None]
Hear = Callable[[str, worker_pb2.CollectiveMessage], None]


class ForeignTasks(Protocol):
    """TensorFlow's servers, as this task reaches them."""

    def call(self, task: str, method: str, request: Any, answer: Any, done: Answered) -> Callable[[], None]:
        """Call a method of a server's tensorflow.WorkerService; what is returned cancels that.

        Args:
            answer: the type of the answer.
            done: called with it, or the error, in any thread; it must not block for long.
        """


class Mixed:
    """A task's part in groups with TensorFlow's servers.

    Args:
        task, life: this task and its incarnation.
        leader: who leads groups.
        foreign: None where there are no other tasks.
    """

    def __init__(self, task: str, life: int, leader: str, foreign: ForeignTasks | None) -> None:
        self._task = task
        self._life = life
        self._leader = leader
        self._foreign = foreign
        self.buffers = Buffers()
        self.steps = StepIds(None if leader == task else self._ask_for_step)
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[worker_pb2.CollectiveMessage], None]] = {}
        self._requests = itertools.count(1)

    # Asking a leader that is TensorFlow's -----------------------------------------------------------------------------

    def ask(
        self,
        message: worker_pb2.CollectiveMessage,
        about: CollectiveRequest | None,
        told: Hear,
        failed: Callable[[OpError], None],
    ) -> None:
        """Ask the leader, one of TensorFlow's servers, what one of ours would be asked; `told` hears the answer."""
        kind = message.WhichOneof("kind")
        if kind == "join_group":
            self._complete_group(message.join_group, told, failed)
        elif kind == "join_instance" and about is not None:
            self._complete_instance(message.join_instance, about, told, failed)

    def _call(self, task: str, method: str, request: Any, answer: Any, done: Answered) -> Callable[[], None]:
        assert self._foreign is not None
        return self._foreign.call(task, method, request, answer, done)

    def _complete_group(self, asked: worker_pb2.JoinGroup, told: Hear, failed: Callable[[OpError], None]) -> None:
        if asked.place:
            failed(InvalidArgumentError("A leader that is a TensorFlow server knows no ranks of members' own choice"))
            return
        request = tensorflow_worker_pb2.CompleteGroupRequest(
            group_key=asked.group_key,
            group_size=asked.group_size,
            device_type="CPU",
            device_attributes=attributes(asked.device, asked.incarnation, is_ours=True),
        )

        def done(answer: Any, error: OpError | None) -> None:
            if error is not None:
                failed(error)
                return
            members = [
                worker_pb2.GroupMember(
                    device=d.name, incarnation=d.incarnation, is_foreign=d.physical_device_desc != OURS
                )
                for d in answer.device_attributes
            ]
            if all(member.device != asked.device for member in members):
                failed(InternalError(f"{self._leader} answers {asked.device} with a group that it is not in"))
                return
            ready = worker_pb2.GroupReady(request=asked.request, communicator=number_of(answer, members))
            ready.member.extend(members)
            told(self._leader, worker_pb2.CollectiveMessage(group_ready=ready))

        self._call(self._leader, "CompleteGroup", request, tensorflow_worker_pb2.CompleteGroupResponse, done)

    def _complete_instance(
        self, asked: worker_pb2.JoinInstance, about: CollectiveRequest, told: Hear, failed: Callable[[OpError], None]
    ) -> None:
        shape = about.shape
        if about.kind == "Gather":
            shape = (shape[0] * about.group_size, *shape[1:])
        request = tensorflow_worker_pb2.CompleteInstanceRequest(
            name=about.node,
            type=_TYPES[about.kind],
            data_type=as_dtype(about.dtype).as_datatype_enum,  # type: ignore[arg-type]
            group_key=about.group_key,
            group_size=about.group_size,
            instance_key=about.instance_key,
            device_type="CPU",
            subdiv_offset=about.subdivs,
            device=asked.device,
            is_source=about.is_source,
        )
        for size in shape:
            request.shape.dim.add(size=size)

        def done(answer: Any, error: OpError | None) -> None:
            if error is not None:
                failed(error)
                return
            source = answer.source_rank if about.kind == "Broadcast" else -1
            ready = worker_pb2.InstanceReady(request=asked.request, source=source)
            told(self._leader, worker_pb2.CollectiveMessage(instance_ready=ready))

        self._call(self._leader, "CompleteInstance", request, tensorflow_worker_pb2.CompleteInstanceResponse, done)

    def _ask_for_step(self, key: int, told: Told) -> None:
        request = tensorflow_worker_pb2.GetStepSequenceRequest(graph_key=[key])

        def done(answer: Any, error: OpError | None) -> None:
            if error is None and len(answer.step_sequence) != 1:
                error = InternalError(f"{self._leader} does not say which step of graph key {key} is the next")
            told(0 if error is not None else answer.step_sequence[0].next_step_id, error)

        self._call(self._leader, "GetStepSequence", request, tensorflow_worker_pb2.GetStepSequenceResponse, done)

    # Steps ------------------------------------------------------------------------------------------------------------

    def begin(self, computation: Computation, source: int, tell: Hear) -> None:
        """Begin a computation once it is known which number its step has.

        Args:
            tell: sends to a task of ours.
        """
        step, graph_key, master = computation.origin
        request, communicator = computation.request, computation.communicator
        assert communicator is not None
        if request.kind == "ReduceScatter" or request.rank is not None:
            text = "TensorFlow's servers are in this group, and on CPUs they know no " + (
                "CollectiveReduceScatterV2" if request.rank is None else "communicators"
            )
            computation.fail(UnimplementedError(text))
            return
        device = communicator.room.members[communicator.rank].device
        what = f"{request.group_key}:{request.instance_key}:{request.frame}:{device}"

        def told(number: int, error: OpError | None) -> None:
            if error is not None:
                computation.fail(error)
            else:
                key = graph_key if master == self._task else None
                computation.begin(communicator, source, Shared(self, number, key))

        if master == self._task:
            self._number(step, graph_key, what, told)
            return

        def heard(message: worker_pb2.CollectiveMessage) -> None:
            told(message.step_known.step_id, error_in(message.step_known.code, message.step_known.message))

        try:
            asked = self._wait(heard)
        except ResourceExhaustedError as e:
            computation.fail(e)
            return
        computation.when_over(partial(self._stop_waiting, asked))
        question = worker_pb2.AskStep(request=asked, step=step, graph_key=graph_key, what=what)
        tell(master, worker_pb2.CollectiveMessage(ask_step=question))

    def _number(self, step: int, graph_key: int, what: str, told: Told) -> None:
        if not graph_key:
            told(0, FailedPreconditionError(f"Step {step} computes in groups, but its graph was not known to"))
            return
        self.steps.number(graph_key, step, what, told)

    def asked_for_step(self, task: str, asked: worker_pb2.AskStep, tell: Hear) -> None:
        """Answer a task that computes something in a step of a master here."""

        def told(number: int, error: OpError | None) -> None:
            known = worker_pb2.StepKnown(request=asked.request, step_id=number)
            if error is not None:
                known.code, known.message = error.error_code, error.message
            tell(task, worker_pb2.CollectiveMessage(step_known=known))

        self._number(asked.step, asked.graph_key, asked.what, told)

    def step_known(self, message: worker_pb2.CollectiveMessage) -> None:
        """Hear which number a step has."""
        with self._lock:
            waiting = self._waiting.pop(message.step_known.request, None)
        if waiting is not None:
            waiting(message)

    def fetch_from(
        self, member: Member, number: int, device: str, key: str, like: Array, done: Fetched
    ) -> Callable[[], None]:
        """Fetch an array that a member leaves, which is one of TensorFlow's."""
        request = tensorflow_worker_pb2.RecvBufRequest(
            step_id=number,
            buf_rendezvous_key=key,
            num_bytes=like.nbytes,
            src_device=member.device,
            dst_device=device,
            src_incarnation=member.life,
        )

        def came(answer: Any, error: OpError | None) -> None:
            if error is None:
                try:
                    unpack(answer, like)
                except InternalError as e:
                    error = e
            done(like if error is None else None, error)

        return self._call(member.task, "RecvBuf", request, tensorflow_worker_pb2.RecvBufResponse, came)

    # Being asked by TensorFlow's servers ------------------------------------------------------------------------------

    def complete_group(
        self,
        asked: tensorflow_worker_pb2.CompleteGroupRequest,
        join: Callable[[worker_pb2.JoinGroup], Callable[[], None]],
        done: Answered,
    ) -> Callable[[], None]:
        """Take a foreign member's wish to be in a group; what is returned gives up waiting for the answer.

        Args:
            join: passes it on to the leader here; what is returned withdraws it.

        Raises:
            OpError: this task does not lead, knows no such groups, or too many wait here.
        """
        self._check_leads()
        if asked.device_type != "CPU":
            raise UnimplementedError(f"Groups of {asked.device_type} devices cannot have members of both kinds")
        device = asked.device_attributes
        self._check_name(device.name)
        number = self._wait(lambda message: done(*group_answer(asked, message.group_ready)))
        withdraw = join(
            worker_pb2.JoinGroup(
                request=number,
                group_key=asked.group_key,
                group_size=asked.group_size,
                device=device.name,
                incarnation=device.incarnation,
            ),
        )
        return partial(self._stop_waiting, number, withdraw)

    def complete_instance(
        self,
        asked: tensorflow_worker_pb2.CompleteInstanceRequest,
        communicator: int,
        join: Callable[[worker_pb2.JoinInstance], Callable[[], None]],
        done: Answered,
    ) -> Callable[[], None]:
        """Take what a foreign member is about to compute with a group; see `complete_group`."""
        self._check_leads()
        kind = _KINDS.get(asked.type)
        if kind is None:
            raise UnimplementedError(f"Members of both kinds cannot do collectives of type {asked.type} together")
        if len(asked.shape.dim) > _MOST_DIMENSIONS:
            raise InvalidArgumentError(f"{asked.device} computes with {len(asked.shape.dim)} dimensions")
        shape = tuple(dim.size for dim in asked.shape.dim)
        try:
            dtype = as_dtype(asked.data_type).np
        except TypeError as e:
            raise InvalidArgumentError(f"{asked.device} computes with a group, of no type that is known: {e}") from None
        request = CollectiveRequest(kind, asked.group_key, asked.group_size, asked.instance_key, None, shape, dtype)

        def answer(message: worker_pb2.CollectiveMessage) -> None:
            ready = message.instance_ready
            error = error_in(ready.code, ready.message)
            if error is not None:
                done(None, error)
                return
            response = tensorflow_worker_pb2.CompleteInstanceResponse(
                instance_key=asked.instance_key, source_rank=ready.source
            )
            done(response, None)

        number = self._wait(answer)
        withdraw = join(
            worker_pb2.JoinInstance(
                request=number,
                communicator=communicator,
                instance_key=asked.instance_key,
                device=asked.device,
                what=request.what,
                is_source=asked.is_source,
            ),
        )
        return partial(self._stop_waiting, number, withdraw)

    def step_sequence(
        self, asked: tensorflow_worker_pb2.GetStepSequenceRequest
    ) -> tensorflow_worker_pb2.GetStepSequenceResponse:
        """Say which steps come next.

        Raises:
            InternalError: this task does not lead.
        """
        self._check_leads()
        answer = tensorflow_worker_pb2.GetStepSequenceResponse()
        for key in asked.graph_key:
            answer.step_sequence.add(graph_key=key, next_step_id=self.steps.next_of(key))
        return answer

    def receive(self, asked: tensorflow_worker_pb2.RecvBufRequest, done: Answered) -> Callable[[], None]:
        """Give a foreign member what is left for it, once it is there; what is returned gives up waiting.

        Raises:
            FailedPreconditionError: it means a former life of this task.
        """
        if asked.src_incarnation != self._life:
            raise FailedPreconditionError(
                f"Device {asked.src_device} current incarnation doesn't match with the one in the request: "
                f"{asked.src_incarnation}. {self._task} was restarted"
            )

        def fetched(value: Array | None, error: OpError | None) -> None:
            if value is None:
                done(None, error)
            elif value.nbytes != asked.num_bytes:
                text = f"{asked.buf_rendezvous_key} has {value.nbytes} bytes, not {asked.num_bytes}"
                done(None, InternalError(text))
            else:
                done(packed(value), None)

        return self.buffers.fetch(asked.step_id, asked.buf_rendezvous_key, fetched)

    def _check_leads(self) -> None:
        if self._leader != self._task:
            raise InternalError(f"{self._task} does not lead groups: for it, {self._leader} does")

    def _wait(self, answer: Callable[[worker_pb2.CollectiveMessage], None]) -> int:
        number = next(self._requests)
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                raise ResourceExhaustedError(f"{len(self._waiting)} answers about groups are waited for here")
            self._waiting[number] = answer
        return number

    def _stop_waiting(self, number: int, withdraw: Callable[[], None] = lambda: None) -> None:
        with self._lock:
            self._waiting.pop(number, None)
        withdraw()

    @staticmethod
    def _check_name(device: str) -> None:
        if len(device) > _LONGEST_NAME:
            raise InvalidArgumentError(f"A device with a name of {len(device)} characters: {device[:40]}...")

    def answered(self, message: worker_pb2.CollectiveMessage) -> None:
        """Pass on what the leader here answers a foreign member."""
        is_group = message.WhichOneof("kind") == "group_ready"
        request = message.group_ready.request if is_group else message.instance_ready.request
        with self._lock:
            waiting = self._waiting.pop(request, None)
        if waiting is not None:
            waiting(message)


class Shared:
    """A step in a mixed group (communicator.SharedStep).

    Args:
        key: the graph key that the number is of; None where another task counts.
    """

    def __init__(self, mixed: Mixed, number: int, key: int | None) -> None:
        self.number = number
        self._mixed = mixed
        self._key = key

    def leave(self, key: str, value: Array, taken: Callable[[], None]) -> None:
        self._mixed.buffers.leave(self.number, key, value, taken)

    def fetch(self, member: Member, device: str, key: str, like: Array, done: Fetched) -> Callable[[], None]:
        return self._mixed.fetch_from(member, self.number, device, key, like, done)

    def ended(self, error: OpError | None) -> None:
        if error is not None:
            self._mixed.buffers.fail(self.number, error)
        if self._key is None:
            return
        if error is None:
            self._mixed.steps.ended(self._key, self.number)
        else:
            self._mixed.steps.forget(self._key)


def foreign(task: str) -> str:
    """Name one of TensorFlow's servers, which no message of ours reaches."""
    return f"tensorflow:{task}"


def is_foreign(task: str) -> bool:
    return task.startswith("tensorflow:")
