"""What the host has for remote memory access, and whether UCX finds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from dtfctl.launcher.messages.looks import Rdma
from dtfctl.net import ucx

ASK_S = 20.0


def read_rdma() -> Rdma:
    """Look for devices, and ask UCX about them where it is installed: in a process of its own, as it is large."""
    devices = ucx.rdma_devices()
    if not ucx.is_installed():
        return Rdma(devices)
    command = [sys.executable, "-m", "dtfctl.net.ucx"]
    environment = {**os.environ, "UCX_LOG_LEVEL": "fatal"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_S,
            env=environment,
            check=True,
        )
        said = json.loads(done.stdout)
        return Rdma(devices, str(said["version"]), tuple(map(str, said["ways"])), str(said["problem"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as e:
        return Rdma(devices, problem=f"UCX does not load: {e}")
