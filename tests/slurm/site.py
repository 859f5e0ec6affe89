"""A real Slurm on this machine: munge, a controller and several nodes, all of one user; no root, no system service.

Every node is a `slurmd -N NAME` with a port of its own, which Debian's build can do. They share this machine's name,
address and files: as a cluster whose nodes share all disks. As root, each may have a home of its own instead.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo")
UP_S = 60.0
END_S = 10.0
POLL_S = 0.02
NODE = "TEST_SLURM_NODE"
"""What all that a node's daemon starts has in its environment, those that supervise steps too."""


def why_not() -> str:
    """Say what is missing for a Slurm of our own; empty: nothing."""
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"]))
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}: install the packages slurm-wlm and munge"
    return ""


class Site:
    """A Slurm that runs, in one folder."""

    def __init__(
        self, folder: Path, nodes: int, options: Sequence[str] = (), node_options: str = "", *, own_homes: bool = False
    ) -> None:
        self.folder = folder
        self.account = folder / "account"
        """The home of who uses it, on the login node and, under this path, on nodes."""
        self._own_homes = own_homes
        self.names = [f"n{i}" for i in range(1, nodes + 1)]
        self._options = options
        self.port = 0
        """Of slurmctld."""
        self._node_options = node_options
        self.conf = folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def up(self) -> None:
        """Start everything, and wait until all nodes are idle."""
        for name in ("run", "state", "log", "spool"):
            (self.folder / name).mkdir(parents=True, mode=0o755)
        self.account.mkdir(exist_ok=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        run, log = self.folder / "run", self.folder / "log"
        self._start(
            "munged",
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={run}/munge.sock"),
            *(f"--pid-file={run}/munged.pid", f"--log-file={log}/munged.log", f"--seed-file={run}/munged.seed"),
        )
        self._wait(lambda: (run / "munge.sock").exists(), "munged")
        self._write_conf()
        self._start("slurmctld", "slurmctld", "-D", "-c", "-f", str(self.conf))
        for name in self.names:
            self.start_node(name)
        wanted = str(len(self.names))
        self._wait(lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == wanted, "idle nodes")

    def _write_conf(self) -> None:
        run, log, here = self.folder / "run", self.folder / "log", socket.gethostname().partition(".")[0]
        user = pwd.getpwuid(os.geteuid()).pw_name
        ports = free_ports(len(self.names) + 1)
        self.port = ports[0]
        nodes = [
            f"NodeName={name} NodeHostname={here} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000 "
            f"State=UNKNOWN {self._node_options}"
            for name, port in zip(self.names, ports[1:], strict=True)
        ]
        lines = [
            *("ClusterName=ci", f"SlurmctldHost={here}(127.0.0.1)", f"SlurmctldPort={ports[0]}"),
            *("AuthType=auth/munge", f"AuthInfo=socket={run}/munge.sock", "CredType=cred/munge"),
            *(f"SlurmUser={user}", f"SlurmdUser={user}"),
            *(f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool/%n"),
            *(f"SlurmdPidFile={run}/slurmd.%n.pid", f"SlurmdLogFile={log}/slurmd.%n.log"),
            *(f"SlurmctldPidFile={run}/slurmctld.pid", f"SlurmctldLogFile={log}/slurmctld.log"),
            *("ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none"),
            *("SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "MpiDefault=none"),
            "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
            *("AccountingStorageType=accounting_storage/none", "JobCompType=jobcomp/none"),
            *("ReturnToService=2", "SlurmctldTimeout=10", "SlurmdTimeout=15", "KillWait=2", "EnforcePartLimits=ALL"),
            "SlurmdParameters=config_overrides",
            *self._options,
            *nodes,
            *("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"),
            "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE",
            "PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF",
        ]
        self.conf.write_text("\n".join(lines) + "\n")

    def start_node(self, name: str) -> None:
        """Start a node's daemon."""
        (self.folder / "spool" / name).mkdir(exist_ok=True)
        inside: tuple[str, ...] = ()
        if self._own_homes:
            self.home_of(name).mkdir(parents=True, exist_ok=True)
            mount = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
            inside = ("unshare", "--mount", "sh", "-c", mount, "sh", str(self.home_of(name)), str(self.account))
        self._start(name, *inside, "slurmd", "-D", "-N", name, "-f", str(self.conf), **{NODE: name})

    def home_of(self, name: str) -> Path:
        """The home that a node has, seen from here."""
        return self.folder / "homes" / name if self._own_homes else self.account

    def kill_node(self, name: str) -> None:
        """Take a node away: its daemon, its steps and all that they started end at once, as with its power.

        They are stopped first, so that none of them can tell Slurm of the end of another.
        """
        every = [self._daemons[name].pid, *pids_of_node(name, self.conf)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in every:
                _signal(pid, number)
        self._daemons.pop(name).wait()

    def pid_of(self, name: str) -> int:
        return self._daemons[name].pid

    def ask(self, *words: str) -> str:
        """Run one of Slurm's commands."""
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def jobs(self) -> list[str]:
        """List the ids of jobs that wait or run; those that end on a node that is gone take Slurm half a minute."""
        return self.ask("squeue", "-h", "-t", "pending,running,suspended", "-o", "%A").split()

    @property
    def environment(self) -> dict[str, str]:
        """The environment of one of its users, on its login node."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        return {**kept, "SLURM_CONF": str(self.conf)}

    def down(self) -> None:
        for name in reversed(self._daemons):
            self._daemons[name].terminate()
        deadline = time.monotonic() + END_S
        for daemon in self._daemons.values():
            try:
                daemon.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for name in self.names:
            for pid in pids_of_node(name, self.conf):
                _signal(pid, signal.SIGKILL)
        for pid in sruns(self.conf):  # an `srun` whose node has gone with its Slurm waits for ever
            _signal(pid, signal.SIGKILL)
        self._daemons.clear()

    def _start(self, name: str, *words: str, **more: str) -> None:
        with (self.folder / "log" / f"{name}.out").open("ab") as out:
            environment = {**self.environment, "LC_ALL": "C", **more}
            self._daemons[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )

    def _wait(self, is_so: object, what: str) -> None:
        assert callable(is_so)
        deadline = time.monotonic() + UP_S
        while True:
            try:
                if is_so():
                    return
            except subprocess.CalledProcessError:
                pass
            ended = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(
                    f"{path.name}: {path.read_text(errors='replace')[-800:]}"
                    for path in (self.folder / "log").iterdir()
                )
                raise RuntimeError(f"Slurm does not come up: waits for {what}, ended: {ended}\n{logs}")
            time.sleep(POLL_S)


def pids_of_node(name: str, conf: Path) -> list[int]:
    """Find the processes of a node's steps, and those that supervise them."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environ = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        is_there = {f"{NODE}={name}".encode(), f"SLURMD_NODENAME={name}".encode()} & {*environ}
        if is_there and f"SLURM_CONF={conf}".encode() in environ and words[0] != b"slurmd":
            found.append(int(folder.name))
    return found


def sruns(conf: Path) -> dict[int, int]:
    """The parent of each `srun` of this Slurm."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_srun = (folder / "cmdline").read_bytes().split(b"\0")[0] == b"srun"
            if is_srun and f"SLURM_CONF={conf}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def free_ports(count: int) -> list[int]:
    """Find ports that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":  # python -m tests.slurm.site FOLDER NODES [--own-homes]: for trying things by hand
    problem = why_not()
    if problem:
        sys.exit(problem)
    site = Site(Path(sys.argv[1]), int(sys.argv[2]), own_homes="--own-homes" in sys.argv)
    site.up()
    print(f"export SLURM_CONF={site.conf}", flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        site.down()
