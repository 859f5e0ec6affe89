"""How a new runtime is tried on a host: by a Python that imports all that the agent will, and then becomes it."""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import json
import os
import socket
import sys
from pathlib import Path

LARGEST_MESSAGE = 1 << 16


def stand_by() -> None:
    """Say on stdin, a socket, that what a host needs can be imported; then become an agent when told, or end."""
    gc.disable()  # see `__main__`
    import ctypes  # noqa: F401
    import zlib  # noqa: F401

    import google.protobuf  # noqa: F401

    from dtfctl.launcher.agent import program  # noqa: F401
    from dtfctl.launcher.providers import host_side  # noqa: F401
    from dtfctl.launcher.providers.agent_process import become_agent

    check_library("numpy", "_core/_multiarray_umath")
    with socket.socket(fileno=os.dup(0)) as channel:
        channel.sendall(b"+")
        try:
            data, fds, _, _ = socket.recv_fds(channel, LARGEST_MESSAGE, 4)
        except ConnectionError:
            return
    if data:
        become_agent(json.loads(data), fds)


def check_library(package: str, library: str) -> None:
    """Check that a package's library can be loaded, which is a tenth of importing the package.

    In a fork, as it may start threads. Exits with the reason on stderr.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"no module {package}")
    names = [library + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    found = [path for path in (Path(spec.submodule_search_locations[0]) / name for name in names) if path.exists()]
    if not found:
        sys.exit(f"{package} is for another Python: it has no {' nor '.join(names)}")
    child = os.fork()
    if child == 0:
        try:
            import ctypes

            os.environ["OPENBLAS_NUM_THREADS"] = "1"
            ctypes.CDLL(str(found[0]))
            os._exit(0)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        sys.exit(f"{found[0]} cannot be loaded: signal {-status}")
    if status:
        sys.exit(status)
