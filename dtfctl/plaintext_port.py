"""python -m dtfctl.plaintext_port ADDRESS PORT CA CERT KEY NAME: a plaintext port that leads to a task's master.

Started by `launcher.tunnel.Tunnel`; besides `dtfctl/task.py` the only place where launcher and runtime meet. It says
{"port": N} or {"error": TEXT} in one line, takes a new address of the task in each line of its input, and ends with it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dtfctl.net.descriptors import raise_limit
from dtfctl.net.tls import Identity
from dtfctl.runtime.services.proxy import MasterProxy


def main(arguments: Sequence[str]) -> int:
    address, port, ca, cert, key, name = arguments
    raise_limit()
    proxy = MasterProxy(address, Identity(Path(ca), Path(cert), Path(key)), name)
    try:
        bound = proxy.start(f"127.0.0.1:{port}")
    except OSError as error:
        print(json.dumps({"error": error.strerror or str(error)}), flush=True)
        return 1
    print(json.dumps({"port": bound}), flush=True)
    for line in sys.stdin:
        proxy.move(line.strip())
    proxy.stop()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # Threads of clients that do not let go must not keep the process.
    os._exit(code)
