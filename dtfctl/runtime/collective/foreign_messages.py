"""What TensorFlow's servers are asked about groups, and answered, as messages."""

from __future__ import annotations

import hashlib

import numpy as np
from google.protobuf.message import DecodeError

from dtfctl.protocol import device_pb2, tensorflow_worker_pb2, worker_pb2
from dtfctl.runtime.collective.algorithms import Array
from dtfctl.runtime.collective.leader import GROUP_BIT
from dtfctl.runtime.framework.errors import InternalError, OpError, error_from_code
from dtfctl.runtime.rendezvous.routing import task_of_device

OURS = "dtfctl"
"""Tells members of ours from TensorFlow's servers, in the description of a device."""


def attributes(device: str, life: int, is_ours: bool) -> device_pb2.DeviceAttributes:
    """Describe a device, and whose it is."""
    return device_pb2.DeviceAttributes(
        name=device, device_type="CPU", incarnation=life, physical_device_desc=OURS if is_ours else ""
    )


def number_of(answer: tensorflow_worker_pb2.CompleteGroupResponse, members: list[worker_pb2.GroupMember]) -> int:
    """Number a group so that all its members do it in the same way, and no other group has the number."""
    text = hashlib.blake2b(str(answer.group_key).encode() + answer.communicator_key, digest_size=8)
    for member in members:
        text.update(f"{member.device} {member.incarnation};".encode())
    return int.from_bytes(text.digest(), "little") | GROUP_BIT


def group_answer(
    asked: tensorflow_worker_pb2.CompleteGroupRequest, ready: worker_pb2.GroupReady
) -> tuple[tensorflow_worker_pb2.CompleteGroupResponse | None, OpError | None]:
    """Make the answer to CompleteGroup of what the leader here says; without, the reason why there is none."""
    if not ready.communicator:
        return None, error_in(ready.code, ready.message)
    response = tensorflow_worker_pb2.CompleteGroupResponse(
        group_key=asked.group_key,
        group_size=asked.group_size,
        device_type=asked.device_type,
        num_tasks=len({task_of_device(member.device) for member in ready.member}),
        communicator_key=ready.communicator.to_bytes(8, "little"),
        device_attributes=[attributes(m.device, m.incarnation, not m.is_foreign) for m in ready.member],
    )
    return response, None


def error_in(code: int, message: str) -> OpError | None:
    """Read the error of a message of ours, if it has one."""
    return error_from_code(code, message) if code else None


def packed(value: Array) -> tensorflow_worker_pb2.RecvBufResponse:
    """Make the answer to RecvBuf."""
    extra = tensorflow_worker_pb2.RecvBufRespExtra(tensor_content=[np.ascontiguousarray(value).tobytes()])
    response = tensorflow_worker_pb2.RecvBufResponse()
    response.transport_options.type_url = "type.googleapis.com/tensorflow.RecvBufRespExtra"
    response.transport_options.value = extra.SerializeToString()
    return response


def unpack(answer: tensorflow_worker_pb2.RecvBufResponse, like: Array) -> None:
    """Copy what was fetched.

    Raises:
        InternalError: it cannot be read, or is not as long as expected.
    """
    try:
        extra = tensorflow_worker_pb2.RecvBufRespExtra.FromString(answer.transport_options.value)
    except DecodeError as e:
        raise InternalError(f"What RecvBuf has brought cannot be read: {e}") from None
    out = like.view(np.uint8)
    at = 0
    for piece in extra.tensor_content:
        if at + len(piece) > len(out):
            break
        out[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    came = sum(map(len, extra.tensor_content))
    if came != like.nbytes:
        raise InternalError(f"RecvBuf has brought {came} bytes, and {like.nbytes} were expected")
