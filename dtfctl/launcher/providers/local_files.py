"""`sync` and `setup` of a cluster on this machine: the same program as on other hosts, without SSH in between."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dtfctl.launcher.providers.base import HostFailed, Stage
from dtfctl.launcher.providers.files import Synced, Syncs, setup_of
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import private_folder

SOURCE = Path(__file__).with_name("host_side.py")
REPLY = "dtfctl:"
END_S = 10.0
OnStep = Callable[[Stage, str], None]


def put_files(cluster: str, spec: ClusterSpec, syncs: Syncs, on_stage: OnStep) -> None:
    """Copy what `sync` says and run `setup`, where either has changed.

    Raises:
        HostFailed: with cause `sync`, `setup` or `disk`.
    """
    synced = [item for item in syncs.current() if _goes_elsewhere(item)]
    request = {
        "do": "files",
        "cluster": cluster,
        "sync": [{"to": item.to, "hash": item.hash} for item in synced],
        "setup": setup_of(spec, synced),
    }
    with _Program(on_stage) as program:
        for _ in range(2):
            reply = program.ask(request)
            if "need" not in reply:
                return
            for name in reply["need"]:
                item = synced[int(name.partition(":")[2])]
                on_stage("syncing", item.to)
                program.ask(_unpacking(item, syncs, Path(reply["facts"]["base"])))
    raise HostFailed("sync", "what was copied is not there: somebody else deletes files in ~/.dtfctl")


def _goes_elsewhere(item: Synced) -> bool:
    """Tell whether an item is to be copied; False for a folder that is to be where it is.

    Raises:
        HostFailed: it would be copied into itself.
    """
    source = item.source.resolve()
    target = (Path.home() / Path(item.to).expanduser()).resolve()
    if target == source:
        return False
    if target.is_relative_to(source):
        raise HostFailed("sync", f"sync: {item.to} lies inside of {item.source}", "choose another `to`")
    return True


def _unpacking(item: Synced, syncs: Syncs, base: Path) -> dict[str, Any]:
    archive = private_folder(base / "tmp") / f"{item.hash[:24]}.{uuid.uuid4().hex[:12]}"
    shutil.copyfile(syncs.archive(item), archive)
    return {"do": "unpack_sync", "to": item.to, "hash": item.hash, "single": item.single, "archive": str(archive)}


class _Program:
    """`host_side.py` as a child of this process."""

    def __init__(self, on_stage: OnStep) -> None:
        self._on_stage = on_stage

    def __enter__(self) -> _Program:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-u", str(SOURCE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reply()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        while "stage" in (reply := self._reply()):
            self._on_stage(reply["stage"], reply["detail"])
        if "error" in reply:
            raise HostFailed(reply["cause"], reply["error"])
        return reply

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HostFailed("sync", f"the program that places files ended with {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line.removeprefix(REPLY))
        return reply
