"""A controller that runs on a host of its cluster, as the operator's machine sees it.

This machine keeps the cluster's certificates, and in `seat.json` where the controller is and how to log in there.
Calls go to it directly, or through an SSH connection where its port cannot be reached. A controller that has died is
started again over SSH; on its host a shell does so too, while nobody asks.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtfctl import tracing
from dtfctl.launcher import paths as layout
from dtfctl.launcher.errors import Conflict, ControllerUnreachable, LauncherError, LoginError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers import ownership
from dtfctl.launcher.providers.base import LOGIN_CAUSES, HostFailed, OnStage, silent
from dtfctl.launcher.providers.local import LOOPBACK
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, Ssh
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.net.address import answers

if TYPE_CHECKING:
    from dtfctl.launcher.operator.controller_over_ssh import Operator

KNOCK_S = 1.0
LOG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """What `seat.json` holds."""

    host: str
    created: float
    ssh: Ssh
    hosts: tuple[HostName, ...]
    """Every host that has ever let the cluster's key in."""
    home: str | None = None
    """The spec's `home`."""
    fast: bool = True
    """The spec's `fast`: the controller's host gets what the others shall have from it, and no more."""

    def as_spec(self, cluster: str) -> ClusterSpec:
        """Make a spec that is enough to log in."""
        groups = {"all": HostGroup(self.hosts)}
        return ClusterSpec(cluster, {}, host_groups=groups, ssh=self.ssh, home=self.home, fast=self.fast)


def host_of(spec: ClusterSpec) -> str:
    """Choose the host of a new cluster's controller: the one that the spec says, or its first; empty: this machine."""
    if spec.controller.place == "local" or spec.is_local:
        return ""
    return spec.controller.host or spec.hosts[0].name


def settle_on(paths: ClusterPaths, spec: ClusterSpec, created: float, host: str) -> None:
    """Settle where the next `RemoteController.prepare` puts the controller."""
    names = tuple(HostName(host.name, host.user) for host in spec.hosts)
    place = Place(host, created, spec.ssh, names, spec.home, spec.fast)
    write_whole(paths.controller_place, codec.encode(place).encode())
    paths.controller_info.unlink(missing_ok=True)


class RemoteController:
    """See the module. Use `close`."""

    def __init__(self, paths: ClusterPaths) -> None:
        self._paths = paths
        self._place = codec.decode(Place, paths.controller_place.read_bytes())
        self.host = self._place.host
        self._operator: Operator | None = None

    @classmethod
    def prepare(
        cls, paths: ClusterPaths, spec: ClusterSpec, created: float, on_stage: OnStage = silent
    ) -> RemoteController:
        """Put all that the controller needs on its host and start it, or find it there; lets it into all hosts.

        Raises:
            LoginError: its host does not let us in. Conflict: the spec has no place any more for it.
            ControllerUnreachable, ClusterFailed: it cannot be started.
        """
        names = [HostName(host.name, host.user) for host in spec.hosts]
        before = codec.decode(Place, paths.controller_place.read_bytes()) if paths.controller_place.exists() else None
        host = before.host if before else host_of(spec)
        if all(name.name != host for name in names):
            raise Conflict(
                f"the controller of {paths.name} runs on {host}, which the spec does not have any more",
                f"take the cluster down first: dtfctl down -c {paths.name}",
            )
        if spec.controller.host not in (None, host):
            raise Conflict(
                f"the controller of {paths.name} runs on {host}; it cannot go to {spec.controller.host} while it is up",
                f"take the cluster down first: dtfctl down -c {paths.name}",
            )
        older = [name for name in (before.hosts if before else ()) if name.name not in {item.name for item in names}]
        place = Place(host, created, spec.ssh, (*names, *older), spec.home, spec.fast)
        write_whole(paths.controller_place, codec.encode(place).encode())
        controller = cls(paths)
        try:
            controller._settle(spec, on_stage)
        except HostFailed as error:
            controller.close()
            raise _login_error(host, error) from None
        except BaseException:
            controller.close()
            raise
        return controller

    def _settle(self, spec: ClusterSpec, on_stage: OnStage) -> None:
        from dtfctl.launcher.providers.own_login import MET, hosts_file, met_before

        operator = self._connected()
        operator.on_stage = on_stage
        line = self._key_line()
        met = operator.introduce([host.name for host in spec.hosts], line)
        own = met[self.host]
        if own.cause is not None:
            raise _login_error(self.host, HostFailed(own.cause, own.message, own.hint, own.where))
        # A host that is away now lets the key in that it was given before.
        met = met_before(self._paths.login, met)
        write_whole(self._paths.login / MET, hosts_file(met).encode())
        recalled = self._paths.recalled
        manifest, archives = self._archives(spec, operator)
        files = {
            **_texts(self._paths.folder, ("certificates",)),
            "owner.json": codec.encode(ownership.read(self._paths)),
            "login/key": (self._paths.login / "key").read_text(),
            "login/known_hosts": "".join(item.known_hosts_line() for item in met.values() if item.cause is None),
            "login/hosts.json": hosts_file(met),
            "login/sync.json": json.dumps(manifest),
            **({recalled.name: recalled.read_text()} if recalled.exists() else {}),
        }
        self._start(files, archives, own.address)
        recalled.unlink(missing_ok=True)

    def _key_line(self) -> str:
        """Write the line of `authorized_keys` for the cluster's own key; the key is made unless it is there."""
        import asyncssh

        path = private_folder(self._paths.login) / "key"
        if not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519", comment=f"dtfctl-{self._paths.name}")
            write_whole(path, key.export_private_key())
        public = asyncssh.read_private_key(path).export_public_key().decode().split()[:2]
        return f"restrict {' '.join(public)} dtfctl-{self._paths.name}"

    def _archives(self, spec: ClusterSpec, operator: Operator) -> tuple[list[dict[str, object]], dict[str, str]]:
        """Upload what `sync` sends to the controller's host; return the list of it, and the uploads by hash."""
        from dtfctl.launcher.providers.files import Syncs

        syncs = Syncs(layout.home() / "bundles", spec.sync)
        manifest: list[dict[str, object]] = []
        uploads = {}
        for item in syncs.current():
            manifest.append({"to": item.to, "hash": item.hash, "single": item.single})
            uploads[item.hash] = operator.send(self.host, syncs.archive(item))
        return manifest, uploads

    # ------------------------------------------------------------------ a ControllerProcess

    def find(self) -> str | None:
        address, direct = self._known()
        if direct:
            return self.at_hand()
        if address:
            with contextlib.suppress(LauncherError):
                return self._through_ssh(address)
        return None

    def at_hand(self) -> str | None:
        address, direct = self._known()
        return address if direct and answers(address, KNOCK_S) else None

    def _known(self) -> tuple[str, bool]:
        """Read where the controller was called last, and whether without SSH."""
        try:
            known = json.loads(self._paths.controller_info.read_bytes())
            return str(known["address"]), bool(known["direct"])
        except (FileNotFoundError, ValueError, KeyError):
            return "", False

    def start(self) -> str:
        return self._start({}, {}, "")

    def _start(self, files: dict[str, str], archives: dict[str, str], listen: str) -> str:
        request = {"do": "start", "files": files, "archives": archives, "listen": listen}
        request["environment"] = tracing.environment()
        address = str(self._control(request)["address"])
        direct = answers(address, KNOCK_S)
        write_whole(self._paths.controller_info, json.dumps({"address": address, "direct": direct}).encode())
        return address if direct else self._through_ssh(address)

    def does_not_answer(self) -> str:
        # `start` goes there over SSH, and asks it on its own machine.
        self._paths.controller_info.unlink(missing_ok=True)
        return ""

    def reach(self, address: str) -> str:
        return address if answers(address, KNOCK_S) else self._through_ssh(address)

    def lead(self, port: int) -> str:
        # What listens at that port here is another one.
        return self._through_ssh(f"{LOOPBACK}:{port}")

    def wait_gone(self) -> None:
        """Wait for nothing: `forget` waits."""

    def forget(self, keep_logs: bool = True) -> None:
        self._control({"do": "stop", "keep_logs": keep_logs})
        # Where it was before it came here: a host that was lost then has its files still.
        before = [host.name for host in self._place.hosts if host.name != self.host]
        self._connected().end_controllers(before, force=False)
        self.give_up()

    def give_up(self) -> None:
        """Take the cluster's key away from the hosts that can be reached, and delete what is here."""
        names = [host.name for host in self._place.hosts]
        self._connected().forbid(names, self._key_line())
        shutil.rmtree(self._paths.certificates, ignore_errors=True)
        shutil.rmtree(self._paths.login, ignore_errors=True)
        shutil.rmtree(self._paths.run, ignore_errors=True)
        for path in (self._paths.controller_info, self._paths.controller_place, self._paths.info, self._paths.owner):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._paths.logs.rmdir()

    def log(self) -> Iterator[str]:
        """Yield what is in the controller's log, a piece at a time, then what is added; an empty piece: nothing new."""
        at = 0
        while True:
            reply = self._control({"do": "log", "after": at, "most": LOG_BYTES})
            at = int(reply["next"])
            yield str(reply["text"])

    def close(self) -> None:
        if self._operator is not None:
            self._operator.close()
            self._operator = None

    # ------------------------------------------------------------------ over SSH

    def _connected(self) -> Operator:
        if self._operator is None:
            from dtfctl.launcher.operator.controller_over_ssh import Operator

            self._operator = Operator(self._paths)
            self._operator.configure(self._place.as_spec(self._paths.name))
        return self._operator

    def _control(self, request: Mapping[str, Any]) -> dict[str, Any]:
        asked = {**request, "cluster": self._paths.name, "created": self._place.created}
        try:
            return self._connected().control(self.host, asked)
        except HostFailed as error:
            raise _login_error(self.host, error) from None

    def _through_ssh(self, address: str) -> str:
        try:
            return self._connected().forward(self.host, address)
        except HostFailed as error:
            raise _login_error(self.host, error) from None


def _login_error(host: str, error: HostFailed) -> LauncherError:
    if error.cause == "owner":
        return Conflict(f"{host}: {error.message}", error.hint)
    kind = LoginError if error.cause in LOGIN_CAUSES else ControllerUnreachable
    where = f" ({error.where})" if error.where else ""
    elsewhere = "if that host is lost for good, put the controller on another: dtfctl up FILE --adopt"
    hint = "; ".join(filter(None, [error.hint, elsewhere if error.cause == "unreachable" else ""]))
    return kind(f"{host}, where the controller runs: {error.message}{where}", hint)


def _texts(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Read the files below some folders, by their paths."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for name in names
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }
