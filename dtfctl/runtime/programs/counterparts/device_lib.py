"""`tensorflow.python.client.device_lib`: the devices of this process."""

from __future__ import annotations

from typing import Any

from dtfctl.protocol import device_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework.graph import Graph


def list_local_devices(session_config: Any = None) -> list[device_pb2.DeviceAttributes]:
    """List the devices of a session here, by names that begin with "/device:"."""
    with Graph().as_default(), Session(config=session_config) as session:
        found = session.list_devices()
    return [
        device_pb2.DeviceAttributes(
            name=f"/device:{device.name.partition('/device:')[2]}",
            device_type=device.device_type,
            memory_limit=device.memory_limit_bytes,
            incarnation=device.incarnation,
        )
        for device in found
    ]
