"""On a host: the layers that dtfctl consists of there, and the virtual environment that leads to them.

As `host_side.py` it is read by any Python >= 3.11, so it imports nothing of dtfctl but its own parts.

    layers/HASH/        modules, and `.files.json`, which says how long each file is
    layers/HASH.why     why a layer that was to come did not
    runtime/HASH/       a virtual environment of one Python, `layers.json`, and a path to its layers
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time

from dtfctl.launcher.providers.host_base import (
    BASE,
    Trouble,
    private,
    read_mark,
    write_mark,
    write_whole,
)
from dtfctl.launcher.providers.host_python import Tried, try_python
from dtfctl.launcher.providers.host_unpack import BLOCK, LISTING, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PATH_FILE = "dtfctl-layers.pth"
LAYERS_FILE = "layers.json"
UNUSED_S = 14 * 86400.0
STALE_S = 3600.0


# ---------------------------------------------------------------- what is there


def folder_of(layer: str) -> str:
    return os.path.join(BASE, "layers", layer)


def python_of(runtime: str) -> str:
    return os.path.join(BASE, "runtime", runtime, "bin", "python")


def own_layers() -> list[dict[str, Any]]:
    """Read the layers of the runtime that this Python is of; empty elsewhere."""
    text = read_mark(os.path.join(sys.prefix, LAYERS_FILE))
    found: list[dict[str, Any]] = json.loads(text) if text else []
    return found


def is_whole(layer: str) -> bool:
    """Tell whether every file of a layer is there and as long as it was."""
    folder = folder_of(layer)
    try:
        with open(os.path.join(folder, LISTING), encoding="utf-8") as file:
            return all(os.stat(os.path.join(folder, name)).st_size == size for name, size in json.load(file))
    except (OSError, ValueError):
        return False


def missing_layers(layers: list[dict[str, Any]], *, thorough: bool) -> list[str]:
    """List what has to be sent of the layers that tasks wait for; put what is broken out of the way.

    Args:
        thorough: look at every file.
    """
    found = []
    for layer in layers:
        name = layer["hash"]
        if not layer["first"] or (is_whole(name) if thorough else os.path.isdir(folder_of(name))):
            continue
        discard(folder_of(name))
        found.append(name)
    return found


def discard(folder: str) -> None:
    """Remove a folder that is broken, at once for who looks at its name."""
    import shutil

    aside = f"{folder}.{os.getpid()}.gone"
    try:
        os.rename(folder, aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)


def note_use(runtime: str, layers: list[dict[str, Any]]) -> None:
    for used in (os.path.join(BASE, "runtime", runtime), *(folder_of(layer["hash"]) for layer in layers)):
        if os.path.isdir(used):
            os.utime(used)


# ---------------------------------------------------------------- making it


def unpack_layer(archive: str, name: str, sha256: str, keep: bool = False, **_: Any) -> None:
    """Unpack an archive (`packing.py`) as layers/NAME, whole or not at all."""
    try:
        with open(archive, "rb") as file:
            place(name, lambda: file.read(BLOCK), sha256)
    finally:
        if not keep:
            os.unlink(archive)


def place(name: str, read: Callable[[], bytes], sha256: str) -> None:
    """Unpack what `read` brings of an archive as layers/NAME, whole or not at all."""
    import shutil

    fresh = f"{os.path.join(private('layers'), name)}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        unpack(read, fresh, sha256)
        settle(fresh, folder_of(name))
        forget_why(name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def make_runtime(runtime: str, layers: list[dict[str, Any]], python: str = "") -> Tried | None:
    """Make a virtual environment of this Python, or of the one it is of itself, with its layers, and try it.

    Returns the process that has tried it; none where this one is of that runtime.
    """
    target = os.path.join(private("runtime"), runtime)
    mark = os.path.join(target, LAYERS_FILE)
    if sys.prefix == target and os.path.exists(mark):
        return None
    base = python or getattr(sys, "_base_executable", sys.executable) or sys.executable
    while True:
        was_there = os.path.isdir(target)
        if not was_there:
            make_environment(target, base, layers)
        tried = try_python(python_of(runtime), BASE)
        if not isinstance(tried, str):
            break
        discard(target)
        if not was_there:
            raise Trouble("install", f"its Python ({base}) cannot run dtfctl: {tried}")
    try:
        if not os.path.exists(mark):
            write_mark(mark, json.dumps(layers))
            forget_unused()
    except BaseException:
        tried.end()
        raise
    return tried


def make_environment(target: str, base: str, layers: list[dict[str, Any]]) -> None:
    """Make a virtual environment, whole or not at all."""
    import shutil

    fresh = f"{target}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        site = os.path.join(fresh, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
        os.makedirs(site, mode=0o700)
        os.makedirs(os.path.join(fresh, "bin"), mode=0o700)
        for name in ("python", "python3"):
            os.symlink(base, os.path.join(fresh, "bin", name))
        write_whole(os.path.join(fresh, "pyvenv.cfg"), f"home = {os.path.dirname(base)}\n".encode())
        write_mark(os.path.join(site, PATH_FILE), path_lines(layers))
        settle(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def path_lines(layers: list[dict[str, Any]]) -> str:
    """Write a .pth file for the layers; those that are not there yet are looked for when they are imported."""
    return (
        "".join(f"{folder_of(layer['hash'])}\n" for layer in layers) + "import dtfctl.later; dtfctl.later.install()\n"
    )


def settle(fresh: str, target: str) -> None:
    """Give a finished folder its name; somebody else's with the same content is as good (a home on a shared disk)."""
    try:
        os.rename(fresh, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not os.path.isdir(target):
            raise


# ---------------------------------------------------------------- layers that come later


def later(layers: list[dict[str, Any]], why: str = "", **_: Any) -> dict[str, Any]:
    """List what is missing of the layers that come later; with `why`, note that it does not come."""
    missing = [layer["hash"] for layer in layers if not layer["first"] and not is_whole(layer["hash"])]
    for name in missing:
        if why:
            write_mark(os.path.join(private("layers"), f"{name}.why"), why)
        else:
            forget_why(name)
            discard(folder_of(name))
    if missing:
        private("tmp")
        os.nice(10)
    return {"missing": missing}


def forget_why(name: str) -> None:
    try:
        os.unlink(f"{folder_of(name)}.why")
    except FileNotFoundError:
        return


# ---------------------------------------------------------------- what nobody uses


def forget_unused() -> None:
    """Remove what no `up` has asked for in two weeks, if nothing runs from it, and uploads that broke off."""
    import shutil

    def names(kind: str) -> list[str]:
        folder = os.path.join(BASE, kind)
        return os.listdir(folder) if os.path.isdir(folder) else []

    def age(kind: str, name: str) -> float:
        try:
            return time.time() - os.stat(os.path.join(BASE, kind, name)).st_mtime
        except FileNotFoundError:
            return 0.0

    for name in names("runtime"):
        if age("runtime", name) > UNUSED_S and not runs_from(os.path.join(BASE, "runtime", name)):
            shutil.rmtree(os.path.join(BASE, "runtime", name), ignore_errors=True)
    kept = {layer["hash"] for name in names("runtime") for layer in layers_of(name)}
    for name in names("layers"):
        if age("layers", name) > UNUSED_S and name.partition(".")[0] not in kept:
            shutil.rmtree(os.path.join(BASE, "layers", name), ignore_errors=True)
    for name in names("packages"):  # as an earlier dtfctl laid it out
        if age("packages", name) > UNUSED_S:
            shutil.rmtree(os.path.join(BASE, "packages", name), ignore_errors=True)
    for name in names("tmp"):
        if age("tmp", name) > STALE_S:
            os.unlink(os.path.join(BASE, "tmp", name))


def layers_of(runtime: str) -> list[dict[str, Any]]:
    text = read_mark(os.path.join(BASE, "runtime", runtime, LAYERS_FILE))
    found: list[dict[str, Any]] = json.loads(text) if text else []
    return found


def runs_from(folder: str) -> bool:
    """Tell whether a process of this user is a Python of this folder."""
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(pid)}/cmdline", "rb") as file:
                if file.read().startswith(os.fsencode(folder) + b"/"):
                    return True
        except (OSError, ValueError):
            continue  # it has just ended, or is none
    return False


REQUESTS: dict[str, Callable[..., dict[str, Any] | None]] = {"unpack_layer": unpack_layer, "later": later}
