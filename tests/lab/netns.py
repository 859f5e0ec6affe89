"""A small cluster on one Linux machine: each host is a network, mount, UTS, IPC and PID namespace with its own sshd.

A host has its own address on a bridge, host key, home, /tmp, /dev/shm and hostname; all else (Python, this checkout) is
shared. The controller and the tests live outside, at the bridge's own address. Needs root and OpenSSH's server, no
container engine. By hand:

    python -m tests.lab.netns up 3           make hosts (DTF_NETNS_PREFIX, _NET and _ROOT keep two labs apart)
    python -m tests.lab.netns hosts          names and addresses
    python -m tests.lab.netns sh NAME CMD..  run a command inside a host, without SSH
    python -m tests.lab.netns cut NAME       (or mend, freeze, thaw, crash, poweroff, boot, rekey; split A B, deaf A B,
                                              lossy NAME PERCENT, slow NAME RATE, full NAME PATH SIZE)
    python -m tests.lab.netns down           remove everything
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

START_S = 60.0
VERBS = (
    *("down", "cut", "mend", "freeze", "thaw", "crash", "poweroff", "boot", "rekey"),
    *("split", "deaf", "slow", "full", "forbid_login"),
)
POLL_S = 0.02
HOME = Path(pwd.getpwuid(os.geteuid()).pw_dir)
"""Of the user that hosts let in, who is also this one; each host has its own."""
REPOSITORY = Path(__file__).resolve().parents[2]
BOOT = """
set -e
dir=$1; hostname "$2"; home=$3; shift 3
mount -t tmpfs -o mode=1777,size=256m shm /dev/shm
mkdir -p "$dir/home" "$dir/tmp" /run/sshd
chmod 700 "$dir/home"; chmod 1777 "$dir/tmp"
for keep in "$@"; do  # seen inside although it lies in a folder that hosts do not share
  case $keep in "$home"/*) at=$dir/home/${keep#"$home"/} ;; *) at=$dir/tmp/${keep#/tmp/} ;; esac
  mkdir -p "$at"; mount --bind -o ro "$keep" "$at"
done
mount --rbind "$dir/home" "$home"
mount --rbind "$dir/tmp" /tmp
mount --bind "$dir/../hosts" /etc/hosts
mount --bind "$dir/../resolv.conf" /etc/resolv.conf  # empty: name servers fail at once
cd "$home"
exec /usr/sbin/sshd -D -E "$dir/sshd.log" -f "$dir/sshd_config"
"""


@dataclass(frozen=True, slots=True)
class LabHost:
    name: str
    address: str


def why_not() -> str:
    """Why no lab can be made here; empty when one can."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    if not Path("/usr/sbin/sshd").exists():
        return "needs OpenSSH's server (apt-get install openssh-server)"
    for tool in ("ip", "iptables", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"needs `{tool}` (apt-get install iproute2 iptables util-linux)"
    probe = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"cannot make namespaces: {probe.stderr.strip()}"


class Lab:
    """Hosts PREFIX1, PREFIX2, ... at NET.11, NET.12, ...; everything they need lies in `root`."""

    def __init__(self, prefix: str, net: str, root: Path) -> None:
        self.prefix = prefix
        self.net = net
        self.root = root
        self.bridge = f"{prefix}br0"
        self._names = json.loads((root / "lab.json").read_text()) if (root / "lab.json").exists() else []

    @classmethod
    def of_environment(cls) -> Lab:
        """The lab that DTF_NETNS_PREFIX, DTF_NETNS_NET and DTF_NETNS_ROOT name; by default one of this process."""
        prefix = os.environ.get("DTF_NETNS_PREFIX") or f"dt{os.getpid() % 46656:x}h"
        net = os.environ.get("DTF_NETNS_NET") or _free_net(os.getpid())
        # Not below /tmp or the home, which hosts do not share with this machine.
        root = Path(os.environ.get("DTF_NETNS_ROOT") or f"/var/lib/dtf-lab-{prefix}")
        return cls(prefix, net, root)

    # ------------------------------------------------------------------ what a client needs

    @property
    def hosts(self) -> list[LabHost]:
        return [LabHost(name, self.address_of(name)) for name in self._names]

    @property
    def names(self) -> list[str]:
        return list(self._names)

    @property
    def gateway(self) -> str:
        """This machine's address among the hosts."""
        return f"{self.net}.1"

    @property
    def key(self) -> Path:
        """The private key that all hosts let in as root."""
        return self.root / "client_key"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    def address_of(self, name: str) -> str:
        return f"{self.net}.{10 + int(name.removeprefix(self.prefix))}"

    # ------------------------------------------------------------------ making and removing it

    def up(self, count: int = 3) -> None:
        if self.root.exists():
            raise RuntimeError(f"{self.root} exists; take that lab down first")
        self.root.mkdir(parents=True, mode=0o755)
        self._names = [f"{self.prefix}{number}" for number in range(1, count + 1)]
        try:
            self._make()
        except BaseException:
            self.down()
            raise

    def _make(self) -> None:
        (self.root / "lab.json").write_text(json.dumps(self._names))
        client = asyncssh.generate_private_key("ssh-ed25519", comment="dtf-lab")
        client.write_private_key(self.key)
        self.key.chmod(0o600)
        client.write_public_key(self.key.with_suffix(".pub"))
        _ip("link", "add", self.bridge, "type", "bridge", "forward_delay", "0")
        _ip("addr", "add", f"{self.gateway}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in self.hosts)]
        (self.root / "hosts").write_text("\n".join(lines) + "\n")
        (self.root / "resolv.conf").write_text("")
        self.known_hosts.write_text("")
        # The names work outside, too: the operator's machine finds its hosts by them.
        for host in self.hosts:
            folder = self.root / host.name
            folder.mkdir()
            self._new_key(host, known=True)
            _ip("netns", "add", host.name)
            _ip("link", "add", f"v{host.name}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _ip("link", "set", f"v{host.name}", "master", self.bridge, "up")
            _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "lo", "up")
            self._link_up(host.name)
            (folder / "sshd_config").write_text(self._sshd_config(host))
        for host in self.hosts:
            self._start(host.name)
        for host in self.hosts:
            self._wait_for_sshd(host.name)

    def _sshd_config(self, host: LabHost) -> str:
        return "\n".join(
            [
                "Port 22",
                f"ListenAddress {host.address}",
                f"HostKey {self.root / host.name / 'host_key'}",
                "PidFile none",
                f"AuthorizedKeysFile {self.key}.pub .ssh/authorized_keys",
                "AuthenticationMethods publickey",
                "PermitRootLogin prohibit-password",
                "UsePAM no",
                "StrictModes no",
                "PrintMotd no",
                "UseDNS no",
                "Subsystem sftp internal-sftp",
                "",
            ]
        )

    def _new_key(self, host: LabHost, *, known: bool) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519", comment=host.name)
        path = self.root / host.name / "host_key"
        key.write_private_key(path)
        path.chmod(0o600)
        if known:
            public = " ".join(key.export_public_key().decode().split()[:2])
            with self.known_hosts.open("a") as file:
                file.write(f"{host.name},{host.address} {public}\n")

    def down(self) -> None:
        for name in self._names:
            self._kill_init(name)
        for name in self._names:
            self._wait_gone(name)
            # At once; with its namespace it would go later.
            _ip("link", "del", f"v{name}", check=False)
            _ip("netns", "del", name, check=False)
        _ip("link", "del", self.bridge, check=False)
        mounts = Path("/proc/self/mountinfo").read_text()
        if f" {self.root}/" in mounts:
            raise RuntimeError(f"something is still mounted under {self.root}; its files would be lost")
        shutil.rmtree(self.root, ignore_errors=True)
        self._names = []

    # ------------------------------------------------------------------ inside a host

    def sh(self, name: str, *command: str, check: bool = True) -> str:
        """Run a command in a host, without SSH; its output."""
        init = self.init(name)
        if init is None:
            raise RuntimeError(f"{name} does not run")
        inside = ["nsenter", "-t", str(init), "-n", "-p", "-u", "-i", "-m", f"--wd={HOME}", "--", *command]
        done = subprocess.run(inside, capture_output=True, text=True, env={**os.environ, "HOME": str(HOME)})
        if check and done.returncode != 0:
            raise RuntimeError(f"{name}: {' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def is_up(self, name: str) -> bool:
        """Whether it is booted."""
        return self.init(name) is not None

    def trust_key(self, name: str) -> None:
        """Make the host key that it has now the known one."""
        key = asyncssh.read_private_key(self.root / name / "host_key")
        public = " ".join(key.export_public_key().decode().split()[:2])
        lines = [line for line in self.known_hosts.read_text().splitlines() if not line.startswith(f"{name},")]
        lines.append(f"{name},{self.address_of(name)} {public}")
        self.known_hosts.write_text("\n".join(lines) + "\n")

    def home(self, name: str) -> Path:
        """The host's home folder, seen from outside."""
        return self.root / name / "home"

    def members(self, name: str) -> list[int]:
        """Every process of a host, by its pid outside."""
        init = self.init(name)
        if init is None:
            return []
        space = Path(f"/proc/{init}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if (entry / "ns/pid").readlink() == space:
                        found.append(int(entry.name))
        return found

    def commands(self, name: str) -> list[bytes]:
        """The command lines of a host's processes."""
        found = []
        for pid in self.members(name):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
        return found

    def processes(self, name: str, words: str) -> list[int]:
        """Processes of a host whose command line has `words`, by their pids outside."""
        found = []
        for pid in self.members(name):
            with contextlib.suppress(OSError):
                if words in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                    found.append(pid)
        return found

    def left_over(self, name: str) -> list[int]:
        """Processes of dtfctl. One at the end of an SSH connection ends with that, be it a dead one: not among them."""
        return sorted({*self.processes(name, "dtfctl")} - {*self.processes(name, "host_side import serve")})

    def lend_packages(self, without: Sequence[str] = ()) -> None:
        """Hosts find what dtfctl depends on as if it had been sent before: sending it takes most of a first `up`.

        They find what else is installed here as well, but for what begins as `without` says.
        """
        from dtfctl.launcher.providers import conversation
        from dtfctl.launcher.providers.bundle import Bundles, Platform
        from tests.support.layers import lend_layers

        question = json.dumps({"do": "look", "cluster": "none", "host": "none"})
        (self.root / "look.py").write_bytes(conversation.source())
        told = self.sh(self._names[0], "sh", "-c", f"echo '{question}' | python3 {self.root / 'look.py'}")
        reply = json.loads(told.splitlines()[1].removeprefix(conversation.REPLY))
        bundle = Bundles(self.root / "bundles").of(Platform.of_facts(reply["facts"]), fast=True)
        for host in self._names:
            lend_layers(self.home(host) / ".dtfctl", bundle, without)

    # ------------------------------------------------------------------ faults

    def cut(self, name: str) -> None:
        """Take its link down."""
        _ip("-n", name, "link", "set", "eth0", "down")

    def mend(self, name: str) -> None:
        """Bring the link back, drop every rule and limit."""
        self._inside_net(name, "iptables", "-w", "-F")
        self._inside_net(name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
        subprocess.run(["tc", "qdisc", "del", "dev", f"v{name}", "root"], capture_output=True)
        self._link_up(name)

    def deaf(self, name: str, other: str) -> None:
        """Drop what `name` sends to `other` (a host, or an address such as the gateway's)."""
        address = self.address_of(other) if other in self._names else other
        self._inside_net(name, "iptables", "-w", "-A", "OUTPUT", "-d", address, "-j", "DROP")

    def split(self, name: str, other: str) -> None:
        """Drop packets between the two, both ways; `other` may be the gateway's address."""
        self.deaf(name, other)
        if other in self._names:
            self.deaf(other, name)
        else:
            self._inside_net(name, "iptables", "-w", "-A", "INPUT", "-s", other, "-j", "DROP")

    @contextlib.contextmanager
    def shut(self, name: str, *, but: str) -> Iterator[None]:
        """A host whose SSH port answers one other host only."""
        rule = ["-p", "tcp", "--dport", "22", "!", "-s", self.address_of(but), "-j", "REJECT"]
        self._inside_net(name, "iptables", "-w", "-A", "INPUT", *rule)
        try:
            yield
        finally:
            self._inside_net(name, "iptables", "-w", "-D", "INPUT", *rule)

    @contextlib.contextmanager
    def shut_port(self, name: str, port: int, *, from_: str) -> Iterator[None]:
        """A port of a host that nobody at the address `from_` can reach; a packet to it is lost."""
        rule = self.drop_port(name, port, from_=from_)
        try:
            yield
        finally:
            self._inside_net(name, "iptables", "-w", "-D", "INPUT", *rule)

    def drop_port(self, name: str, port: int, *, from_: str) -> list[str]:
        """As `shut_port`, until `mend`."""
        rule = ["-p", "tcp", "--dport", str(port), "-s", from_, "-j", "DROP"]
        self._inside_net(name, "iptables", "-w", "-A", "INPUT", *rule)
        return rule

    def lossy(self, name: str, percent: float) -> None:
        for chain in ("INPUT", "OUTPUT"):
            rule = ["-m", "statistic", "--mode", "random", "--probability", str(percent / 100), "-j", "DROP"]
            self._inside_net(name, "iptables", "-w", "-A", chain, *rule)

    def slow(self, name: str, rate: str) -> None:
        """Limit what leaves the host, and what reaches it, to a rate such as 200kbit."""
        shape = ["root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms"]
        self._inside_net(name, "tc", "qdisc", "replace", "dev", "eth0", *shape)
        subprocess.run(["tc", "qdisc", "replace", "dev", f"v{name}", *shape], check=True)

    def freeze(self, name: str) -> None:
        self._signal_all(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._signal_all(name, signal.SIGCONT)

    def crash(self, name: str) -> None:
        """Every process dies at once; peers see their connections reset."""
        self._kill_init(name)
        self._wait_gone(name)

    def poweroff(self, name: str) -> None:
        """As `crash`, but peers see only silence."""
        self.cut(name)
        self.crash(name)

    def boot(self, name: str) -> None:
        """Start a host that crashed: same address, same files, same host key. Its /tmp is emptied."""
        if self.init(name) is not None:
            raise RuntimeError(f"{name} runs")
        shutil.rmtree(self.root / name / "tmp", ignore_errors=True)
        self._link_up(name)
        self._start(name)
        self._wait_for_sshd(name)

    def rekey(self, name: str) -> None:
        """Give it another host key than the known one, and start its sshd again with it."""
        (self.root / name / "host_key").unlink()
        self._new_key(LabHost(name, self.address_of(name)), known=False)
        self.crash(name)
        self.boot(name)

    def forbid_login(self, name: str) -> None:
        """From now on it lets nobody in."""
        config = self.root / name / "sshd_config"
        config.write_text(config.read_text().replace(str(self.key), str(self.root / "nobody")))
        self.crash(name)
        self.boot(name)

    def hide_python(self, name: str) -> None:
        """No `python3` of the system can be found there any more."""
        for path in {
            str(Path(p).resolve()) for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists()
        }:
            self.sh(name, "mount", "--bind", "/bin/false", path)
        for folder in _kept_folders():
            if Path(sys.base_prefix).resolve().is_relative_to(folder):
                self.sh(name, "umount", "-l", folder)

    def give_python(self, name: str, prefix: Path) -> None:
        """From its next boot on `python3` is the one below `prefix`; this machine's other ones are not there."""
        hidden = any(prefix.is_relative_to(folder) for folder in (HOME, Path("/tmp")))
        (self.root / name / "kept.json").write_text(json.dumps([str(prefix)] if hidden else []))
        config = self.root / name / "sshd_config"
        lines = [line for line in config.read_text().splitlines() if not line.startswith("SetEnv PATH=")]
        config.write_text("\n".join([*lines, f"SetEnv PATH={prefix}/bin:/usr/bin:/bin", ""]))

    def share_home(self, name: str, other: str) -> None:
        """From its next boot on its home is that of another host."""
        shutil.rmtree(self.home(name))
        self.home(name).symlink_to(self.home(other))

    def full(self, name: str, path: str, size: str = "1m") -> None:
        """Mount a file system of that size at `path`."""
        self.sh(name, "mkdir", "-p", path)
        self.sh(name, "mount", "-t", "tmpfs", "-o", f"size={size}", "full", path)

    # ------------------------------------------------------------------ parts

    def _start(self, name: str) -> None:
        folder = self.root / name
        own = folder / "kept.json"
        kept = json.loads(own.read_text()) if own.exists() else _kept_folders()
        with (folder / "boot.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", name),
                    *("unshare", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"),
                    *("bash", "-c", BOOT, "boot", str(folder), name, str(HOME), *kept),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "HOME": str(HOME)},
            )
        _children[process.pid] = process
        (folder / "pid").write_text(str(process.pid))

    def _wait_for_sshd(self, name: str) -> None:
        import socket

        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((self.address_of(name), 22), 1.0).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    log = (self.root / name / "boot.log").read_text()
                    raise RuntimeError(f"{name} did not open port 22: {log}") from None
                time.sleep(POLL_S)

    def init(self, name: str) -> int | None:
        """The pid, seen from outside, of the host's pid 1."""
        try:
            outer = int((self.root / name / "pid").read_text())
            # `ip` becomes `unshare`, whose only child is pid 1.
            children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        except (OSError, ValueError):
            return None
        return int(children[0]) if children and _is_live(int(children[0])) else None

    def _kill_init(self, name: str) -> None:
        init = self.init(name)
        if init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)  # the kernel then kills the rest, stopped or not

    def _wait_gone(self, name: str) -> None:
        path = self.root / name / "pid"
        try:
            outer = int(path.read_text())
        except (OSError, ValueError):
            return
        child = _children.pop(outer, None)
        deadline = time.monotonic() + START_S
        while _is_live(outer) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if child is not None:
            child.wait(START_S)
        path.unlink()

    def _signal_all(self, name: str, number: int) -> None:
        for pid in self.members(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _link_up(self, name: str) -> None:
        _ip("-n", name, "link", "set", "eth0", "up")
        # The route is lost with the link; a host needs it to find its own address.
        _ip("-n", name, "route", "replace", "default", "via", self.gateway)

    def _inside_net(self, name: str, *command: str, check: bool = True) -> None:
        done = subprocess.run(["ip", "netns", "exec", name, *command], capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{name}: {' '.join(command)}: {done.stderr}")


_children: dict[int, subprocess.Popen[bytes]] = {}
"""Of this process, to be reaped."""


def _is_live(pid: int) -> bool:
    """A zombie counts as ended: some machines reap orphans seconds late."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _free_net(number: int) -> str:
    """A /24 below 10.64.0.0/10 that no link of this machine has."""
    used = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True).stdout
    for attempt in range(number, number + 64 * 256):
        net = f"10.{64 + attempt % 64}.{attempt // 64 % 256}"
        if f" {net}." not in used:
            return net
    raise RuntimeError("no free network")


def _kept_folders() -> list[str]:
    """What hosts must see although it lies in the home or in /tmp: Python, its packages, this checkout."""
    wanted = [Path(sys.base_prefix), Path(sys.prefix), REPOSITORY, *(Path(p) for p in sys.path if p)]
    kept: list[Path] = []
    for path in sorted({p.resolve() for p in wanted if p.is_dir()}, key=lambda p: len(p.parts)):
        hidden = any(path.is_relative_to(folder) and path != folder for folder in (HOME, Path("/tmp")))
        if hidden and not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return [str(path) for path in kept]


def main(words: Sequence[str]) -> int:
    os.environ.setdefault("DTF_NETNS_PREFIX", "dtf")
    os.environ.setdefault("DTF_NETNS_NET", "10.77.0")
    problem = why_not()
    if problem or not words:
        print(problem or __doc__, file=sys.stderr)
        return 2
    lab = Lab.of_environment()
    verb, *rest = words
    if verb == "up":
        lab.up(int(rest[0]) if rest else 3)
    elif verb == "hosts":
        for host in lab.hosts:
            print(host.name, host.address)
    elif verb == "sh":
        print(lab.sh(*rest), end="")
    elif verb == "lossy":
        lab.lossy(rest[0], float(rest[1]))
    elif verb in VERBS:
        getattr(lab, verb)(*rest)
    else:
        print(f"no such word: {verb}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
