"""Graphs of strangers that get as far as a step: what they do there is an OpError too."""

from __future__ import annotations

import pytest

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from tests.unit.services.graphs import FLOAT, GraphBuilder

pytestmark = pytest.mark.slow

CONFIG = config_pb2.ConfigProto(operation_timeout_in_ms=2_000)


def transfer(op: str, send_device: str, recv_device: str) -> GraphBuilder:
    g = GraphBuilder()
    names = {"tensor_name": b"x", "send_device": send_device.encode(), "recv_device": recv_device.encode()}
    attrs = {name: encode_attr("string", value) for name, value in names.items()}
    attrs["send_device_incarnation"] = encode_attr("int", 1)
    if op in ("_Send", "Send"):
        g.node("op", op, (g.const("c", 1.0),), T=FLOAT, **attrs)
    else:
        g.node("op", op, tensor_type=FLOAT, **attrs)
    return g


def run(g: GraphBuilder) -> None:
    backend = open_backend("", CONFIG)
    try:
        backend.create(g.graph)
        backend.run({}, [], ["op"])
    finally:
        backend.close()


@pytest.mark.parametrize("op", ["_Send", "_Recv", "Send", "Recv"])
@pytest.mark.parametrize("device", ["", "nowhere"])
def test_a_transfer_between_devices_that_have_no_name(op: str, device: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not the full name of a device"):
        run(transfer(op, device, device))


def test_a_value_from_a_task_that_is_not_there_is_not_waited_for_for_ever() -> None:
    away, here = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("moon", "localhost"))
    with pytest.raises(OpError):
        run(transfer("_Recv", away, here))
