"""Find UCX, by its binding `ucxx`, and what it can reach on this host. Imported by nobody who does not ask for it.

python -m dtfctl.net.ucx says it as JSON: the library is large, and a process that only wants to know need not load it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dtfctl.errors import Signal
from dtfctl.values import value

INSTALL = "pip install 'dtfctl[ucx]'"
VARIABLE = "UCX_TLS"
"""UCX's own: which of its transports may be used. Where it is not set, those of RDMA."""
_RDMA = "rc,ud,dc"
_PREFIXES = ("rc_", "ud_", "dc_")
_DEVICES = Path("/sys/class/infiniband")
# What the binding wants at least.
_OLDEST = (1, 19)
_SYSTEM = "RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY"


class NoUcx(Signal):
    """UCX cannot be used here; the message says why and what to do."""


@value
class Found:
    """What there is of UCX and RDMA on a host.

    Attributes:
        devices: RDMA devices with an active port, as the kernel says: `mlx5_0 InfiniBand`, `mlx5_1 Ethernet` (RoCE).
        version: of UCX; empty where it cannot be used.
        ways: what UCX would use: `rc_mlx5/mlx5_0:1`.
        problem: why it cannot be used.
    """

    devices: tuple[str, ...] = ()
    version: str = ""
    ways: tuple[str, ...] = ()
    problem: str = ""


def rdma_devices(root: Path = _DEVICES) -> tuple[str, ...]:
    """List the devices that have an active port, each with what its link is."""
    found = []
    for port in sorted(root.glob("*/ports/*")):
        try:
            state, layer = ((port / name).read_text().strip() for name in ("state", "link_layer"))
        except OSError:
            continue
        if "ACTIVE" in state:
            found.append(f"{port.parent.parent.name} {layer}")
    return tuple(dict.fromkeys(found))


def is_installed() -> bool:
    """Tell whether the binding is there, without loading it."""
    return importlib.util.find_spec("ucxx") is not None


def finds_rdma_in(ways: Sequence[str]) -> bool:
    """Tell whether InfiniBand or RoCE is among what UCX would use."""
    return any(way.startswith(_PREFIXES) for way in ways)


@cache
def binding() -> Any:
    """Return the binding's module.

    Raises:
        NoUcx: it is not there, or does not load.
    """
    if not is_installed():
        raise NoUcx(f"UCX's binding is not installed: {INSTALL}")
    try:
        import libucx

        if os.environ.get(_SYSTEM, "false").lower() == "false" and rdma_devices() and _has_system_library():
            # The wheel's own is built without InfiniBand.
            os.environ[_SYSTEM] = "true"
        libucx.load_library()
        from ucxx._lib import libucxx
    except (ImportError, OSError) as e:
        raise NoUcx(f"UCX's binding does not load: {e}; {INSTALL} --force-reinstall") from None
    return libucxx


def _has_system_library() -> bool:
    try:
        library = ctypes.CDLL("libucp.so", ctypes.RTLD_LOCAL)
    except OSError:
        return False
    parts = [ctypes.c_uint() for _ in range(3)]
    library.ucp_get_version(*map(ctypes.byref, parts))
    return (parts[0].value, parts[1].value) >= _OLDEST


@cache
def context() -> Any:
    """Return this process's context, for streams of bytes between workers.

    Raises:
        NoUcx: as of `binding`, or nothing that may be used is there.
    """
    ucx = binding()
    chosen = os.environ.get(VARIABLE)
    try:
        return ucx.UCXContext({} if chosen else {"TLS": _RDMA}, (ucx.Feature.STREAM, ucx.Feature.WAKEUP))
    except Exception as e:
        if not isinstance(e, (ucx.UCXError, RuntimeError)):
            raise
        what = f"{VARIABLE}={chosen}" if chosen else "InfiniBand or RoCE"
        advice = "" if chosen else f"; {VARIABLE}=tcp has it use TCP, for trials"
        raise NoUcx(f"UCX finds no {what} here: {e}{advice}") from None


def ways_of(info: str) -> tuple[str, ...]:
    """Read what a context may use from UCX's description of it."""
    lines = (line.rpartition(" -- ") for line in info.splitlines() if " resource " in line)
    return tuple(dict.fromkeys(way.strip() for _, mark, way in lines if mark))


def look() -> Found:
    """Find what there is, by loading UCX."""
    devices = rdma_devices()
    version = ""
    try:
        version = ".".join(map(str, binding().get_ucx_version()))
        ways = ways_of(context().info)
    except NoUcx as e:
        ways, problem = (), str(e)
    else:
        problem = ""
    if version and devices and not finds_rdma_in(ways):
        # Such a UCX says that there is no device.
        problem = (
            f"UCX {version} has no way over them. The wheel's is built without InfiniBand: install UCX "
            f"{'.'.join(map(str, _OLDEST))} or newer with its InfiniBand modules, so that libucp.so is found"
        )
    return Found(devices, version, ways, problem)


@cache
def finds_rdma() -> bool:
    """Tell whether UCX finds InfiniBand or RoCE here. It is not even loaded where the kernel has neither."""
    return bool(rdma_devices()) and is_installed() and finds_rdma_in(look().ways)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what was found."""
    del arguments
    found = look()
    said = {"devices": found.devices, "version": found.version, "ways": found.ways, "problem": found.problem}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
