"""python -m dtfctl.launcher.operator.on_controller_host: answer, on a host, what the operator's machine asks.

A request is JSON on stdin, the reply JSON on stdout. `start` puts the controller's files in their place, if they come
along, and answers where it runs, started again if it has died; `stop` waits for its end and deletes its files; `log`
gives the end of its log.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from dtfctl.launcher.errors import Conflict, LauncherError, NoSuchCluster, name_on_wire
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.local_controller import LocalController
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.system.files import private_folder, write_whole


def start(
    cluster: str,
    created: float,
    files: dict[str, str],
    archives: dict[str, str],
    listen: str,
    environment: Mapping[str, str] = MappingProxyType({}),
    **_: Any,
) -> dict[str, Any]:
    """Start the controller.

    Args:
        files: content by path in the cluster's folder. archives: places of uploads by hash.
        environment: where it is to send traces.
    """
    os.environ.update(environment)
    paths = ClusterPaths.of(cluster)
    known = controller_client.read_created(paths)
    if known is None and not files:
        raise NoSuchCluster(f"there is no controller of {cluster} on this host", "run `dtfctl up` again")
    if known not in (None, created):
        raise Conflict(
            f"the controller of another cluster called {cluster} runs on this host",
            "give this one another name, or take the other down",
        )
    if files:
        _place(paths, created, files, archives, listen)
    connection = Connection(paths)
    try:
        return {"address": connection.call(controller_calls.PING, Nothing()).address}
    finally:
        connection.close()


def _place(paths: ClusterPaths, created: float, files: dict[str, str], archives: dict[str, str], listen: str) -> None:
    private_folder(paths.folder)
    if controller_client.read_created(paths) is None:
        controller_client.set_logs_aside(paths)
    for name, content in files.items():
        path = paths.folder / name
        private_folder(path.parent)
        write_whole(path, content.encode())
    store = private_folder(paths.login / "sync")
    wanted = {f"{item['hash']}.tar.gz" for item in json.loads(files["login/sync.json"])}
    for item, upload in archives.items():
        shutil.move(upload, store / f"{item}.tar.gz")
    for old in store.iterdir():
        if old.name not in wanted:
            old.unlink()
    private_folder(paths.logs)
    address = f"[{listen}]" if ":" in listen else listen
    info = {"name": paths.name, "created": created, "listen": address}
    write_whole(paths.info, json.dumps(info).encode())


def stop(cluster: str, created: float, keep_logs: bool = True, **_: Any) -> dict[str, Any]:
    """Clear up after `down` has reached the controller, or give up what it left."""
    paths = ClusterPaths.of(cluster)
    if controller_client.read_created(paths) == created:
        controller = LocalController(paths)
        controller.wait_gone()
        controller.forget(keep_logs)
        with contextlib.suppress(OSError):  # logs stay
            paths.folder.rmdir()
    return {}


def log(cluster: str, after: int, most: int, **_: Any) -> dict[str, Any]:
    """Read what follows byte `after` of the controller's log."""
    path = ClusterPaths.of(cluster).logs / "controller.log"
    try:
        with path.open("rb") as file:
            file.seek(after)
            data = file.read(most)
    except FileNotFoundError:
        data = b""
    return {"text": data.decode(errors="replace"), "next": after + len(data)}


REQUESTS: dict[str, Callable[..., dict[str, Any]]] = {"start": start, "stop": stop, "log": log}


def main() -> int:
    request = json.load(sys.stdin)
    try:
        reply = REQUESTS[request["do"]](**request)
    except LauncherError as error:
        reply = {"error": name_on_wire(error), "message": error.message, "hint": error.hint}
    print(json.dumps(reply))
    return 0


if __name__ == "__main__":
    sys.exit(main())
