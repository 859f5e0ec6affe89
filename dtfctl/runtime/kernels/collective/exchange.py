"""Kernels that compute with a group: what their node asks for, and either beginning it or waiting for it, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime.compression import parse_codec
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.structural_ops import COLLECTIVES, URGENCY_ATTR
from dtfctl.runtime.kernels.collective.groups import CommunicatorResource
from dtfctl.runtime.kernels.collective_request import CollectiveRequest
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import handle_of, shape_text

CODEC = "_compression"
"""The attribute of a node that says how its arrays are encoded between hosts."""
Ask = Callable[..., CollectiveRequest]

KINDS = {
    "_CollectivePlace": "Place",
    "CollectiveReduce": "Reduce",
    "CollectiveReduceScatter": "ReduceScatter",
    "CollectiveGather": "Gather",
    "CollectiveBcastSend": "Broadcast",
    "CollectiveBcastRecv": "Broadcast",
    "CollectiveAllToAll": "AllToAll",
}


@register_kernel("_CollectiveStart", step=True)
def collective_start(k: KernelBuild) -> Kernel:
    ask = _request_of(k, k.text_attr("_op"))
    prefix = k.text_attr("_key")

    def kernel(step: StepContext, *inputs: Any) -> None:
        key, rendezvous = prefix + step.frame, step.rendezvous
        _begin(step, ask(*inputs), lambda value: rendezvous.send(key, value, False), outlives_kernel=True)

    return kernel


@register_kernel(COLLECTIVES, step=True, blocking=True)
def collective(k: KernelBuild) -> Kernel:
    """Begin and wait: in functions, whose calls may run beside each other."""
    ask = _request_of(k, k.node.op)

    def kernel(step: StepContext, *inputs: Any) -> Any:
        condition = threading.Condition()
        found: list[Any] = []

        def done(value: Any) -> None:
            with condition:
                found.append(value)
                condition.notify_all()

        _begin(step, ask(*inputs), done, outlives_kernel=False)
        with condition:
            step.cancellation.wait(condition, lambda: bool(found))
        return found[0]

    return kernel


def _begin(
    step: StepContext, request: CollectiveRequest, done: Callable[[Any], None], *, outlives_kernel: bool
) -> None:
    if step.collectives is None:
        raise UnimplementedError("Collectives need a session; they cannot be run eagerly")
    step.collectives.begin(request, step, done, outlives_kernel=outlives_kernel)


class _Settings(NamedTuple):
    """What all collectives are given as attributes."""

    kind: str
    dtype: np.dtype[Any]
    merge: str
    final: str
    hint: str
    timeout_s: float
    node: str
    subdivs: tuple[int, ...]
    most_subdivs: int
    is_even: bool
    codec: str
    urgency: int


def _codec_of(k: KernelBuild, name: str, merge: str) -> str:
    """Read how a node's arrays are to be encoded between hosts.

    Raises:
        InvalidArgumentError: there is no such codec, or it does not fit what the node computes.
    """
    codec: str = k.text_attr(CODEC, "none")
    if codec == "none":
        return ""
    parse_codec(codec)
    if name != "CollectiveReduce" or merge != "Add" or k.dtype("T").np != np.float32:
        raise InvalidArgumentError(f"{CODEC}='{codec}' is for sums of 32-bit floats by CollectiveReduce", k.node.name)
    return codec


def _request_of(k: KernelBuild, op: str) -> Ask:
    """Make what turns the inputs of a node of a type of op into what it asks of its group."""
    name, version = (op[:-2], op[-1]) if op[-2:] in ("V2", "V3") else (op, "1")
    merge = k.text_attr("merge_op", "Add") if version != "3" else k.text_attr("reduction", "Add")
    settings = _Settings(
        KINDS[name],
        k.dtype("T").np,
        merge,
        k.text_attr("final_op", "Id"),
        k.text_attr("communication_hint", "auto"),
        float(k.attr("timeout_seconds")),
        k.node.name.removesuffix("/start"),
        tuple(k.attr("subdiv_offsets") or ()),
        k.attr("max_subdivs_per_device") if k.attr("max_subdivs_per_device") is not None else -1,
        version == "1",
        _codec_of(k, name, merge),
        int(k.attr(URGENCY_ATTR) or 0),
    )
    if version == "3":
        return _by_communicator(k, settings)
    is_source, receives = name == "CollectiveBcastSend", name == "CollectiveBcastRecv"
    if version == "2":
        return _by_inputs(settings, is_source, receives)
    keys = k.int32_attr("group_key"), k.int32_attr("group_size"), k.int32_attr("instance_key")
    stated = k.attr("shape")
    if stated is not None and not stated.is_fully_defined():
        raise InvalidArgumentError(f"{op} needs a shape that is known in full", k.node.name)
    declared: tuple[int, ...] = () if stated is None else stated.known()

    def ask(value: Any = None) -> CollectiveRequest:
        if is_source and value.shape != declared:
            raise InvalidArgumentError(
                f"Declared shape of op {settings.node} does not match shape of input: {shape_text(declared)} and "
                f"{shape_text(value.shape)}"
            )
        return _request(settings, *keys, value, declared if value is None else value.shape, is_source)

    return ask


def _by_inputs(settings: _Settings, is_source: bool, receives: bool) -> Ask:
    def ask(*inputs: Any) -> CollectiveRequest:
        value: Any = None if receives else inputs[0]
        size, group, instance, *rest = inputs if receives else inputs[1:]
        for name, key in (("group_size", size), ("group_key", group), ("instance_key", instance)):
            if np.ndim(key):
                raise InvalidArgumentError(f"Unexpected dimensions on input {name}, got shape {shape_text(key.shape)}")
        if size <= 0:
            raise InvalidArgumentError(f"group_size must be positive integer but got {int(size)}")
        shape = tuple(int(d) for d in rest[0]) if receives else value.shape
        return _request(settings, int(group), int(size), int(instance), value, shape, is_source)

    return ask


def _by_communicator(k: KernelBuild, settings: _Settings) -> Ask:
    def ask(value: Any, communicator: Any, assignment: Any) -> CollectiveRequest:
        handle = handle_of(communicator)
        found = k.resources.lookup(handle.container, handle.name, CommunicatorResource)
        ranks: tuple[int, ...] = ()
        if assignment.size:
            if assignment.ndim != 2:
                raise InvalidArgumentError("group_assignment must be a matrix of ranks")
            row = np.argwhere(assignment == found.rank)
            if len(row) != 1:
                raise InvalidArgumentError(f"group_assignment must have rank {found.rank} once")
            ranks = tuple(int(r) for r in assignment[row[0, 0]])
        instance = next(found.instances)
        given = settings._replace(hint=found.hint, timeout_s=settings.timeout_s or found.timeout_s)
        return _request(
            given, found.group_key, found.group_size, instance, value, value.shape, False, found.rank, ranks
        )

    return ask


def _request(
    settings: _Settings,
    group_key: int,
    group_size: int,
    instance_key: int,
    value: Any,
    shape: tuple[int, ...],
    is_source: bool,
    rank: int | None = None,
    ranks: tuple[int, ...] = (),
) -> CollectiveRequest:
    parts = len(ranks) or group_size
    if settings.kind in ("ReduceScatter", "AllToAll", "Gather") and not shape:
        raise InvalidArgumentError(f"input of {settings.node} must have at least one dimension")
    if settings.kind == "AllToAll" and shape[0] != parts:
        raise InvalidArgumentError(f"input shape dim 0 must equal group size: {shape[0]} and {parts}")
    if settings.kind == "ReduceScatter" and shape[0] % parts:
        raise InvalidArgumentError(f"input shape dim 0 ({shape[0]}) must be divisible by group size ({parts})")
    return CollectiveRequest(
        settings.kind,
        group_key,
        group_size,
        instance_key,
        None if value is None else np.asarray(value),
        shape,
        settings.dtype,
        settings.merge,
        settings.final,
        settings.hint,
        settings.timeout_s,
        is_source,
        settings.node,
        rank,
        ranks,
        settings.subdivs,
        settings.most_subdivs,
        settings.is_even,
        settings.codec,
        urgency=settings.urgency,
    )
