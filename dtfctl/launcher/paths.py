"""Where a cluster's files are.

    $DTFCTL_HOME or $XDG_STATE_HOME/dtfctl or ~/.local/state/dtfctl        0700
      environments/KEY/       Python environments made for jobs; on other hosts in ~/.dtfctl
      clusters/NAME/
        lock                  held by an `up` or `down` while it works
        cluster.json          name, when it was made, where its sockets are
        owner.json            who brought it up, from where
        controller.json       pid, address and pulse of the running controller
        dashboard.json        where the dashboard is to be, and its token; dashboard-process.json: who serves it
        run/                  sockets (0700): where commands on its machine call it; what SSH forwards
        spec.json             a copy of the spec
        controller.db         desired state, jobs and events (SQLite)
        certificates/         ca, controller, cli, agents, tasks; keys 0600
        hosts/HOST/           an agent's state: agent.json, state.json, runs/, run/ (sockets), work/ID/, blobs/
        jobs/ID.UID/          code/; checkpoint/ stays after `down`
        job-ids.json          the ids that jobs have had; stays after `down`
        allocation.json       where a batch system lends the hosts: which of its jobs
        seat.json, login/     with `controller: host`: where it runs; the key with which it logs in to the hosts
        blobs/                files of jobs that were submitted, by their hashes
        logs/                 stays after `down`; the next `up` moves it to logs.1

A unix socket's path has room for 107 bytes, so sockets live in a short folder of their own (0700).
"""

from __future__ import annotations

import os
from pathlib import Path

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.system.files import private_folder
from dtfctl.values import value

LONGEST_SOCKET_NAME = len("client-socket-of-worker-99999.sock") + 1
LONGEST_SOCKET_PATH = 107


def home() -> Path:
    """Find the one folder that holds everything of this user's clusters."""
    explicit = os.environ.get("DTFCTL_HOME")
    if explicit:
        return Path(explicit).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "dtfctl"


def clusters_folder() -> Path:
    return home() / "clusters"


@value
class ClusterPaths:
    """The files of one cluster, below `folder`."""

    folder: Path

    @classmethod
    def of(cls, name: str) -> ClusterPaths:
        return cls(clusters_folder() / name)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def info(self) -> Path:
        return self.folder / "cluster.json"

    @property
    def controller_lock(self) -> Path:
        return self.folder / "controller.lock"

    @property
    def controller_info(self) -> Path:
        return self.folder / "controller.json"

    @property
    def controller_socket(self) -> Path:
        return self.run / "controller.sock"

    @property
    def run(self) -> Path:
        """Sockets: where the controller is called on its machine, and what SSH forwards."""
        return self.folder / "run"

    @property
    def going_down(self) -> Path:
        """Exists while `down` is at work."""
        return self.folder / "going-down"

    @property
    def owner(self) -> Path:
        return self.folder / "owner.json"

    @property
    def database(self) -> Path:
        return self.folder / "controller.db"

    @property
    def spec(self) -> Path:
        """A copy of the spec, for a controller that has lost its database."""
        return self.folder / "spec.json"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def studies(self) -> Path:
        """What `dtfctl tune` tells the dashboard."""
        return self.folder / "studies"

    @property
    def dashboard(self) -> Path:
        """Exists while the dashboard is wanted: at which port, and who is let in."""
        return self.folder / "dashboard.json"

    @property
    def dashboard_process(self) -> Path:
        return self.folder / "dashboard-process.json"

    @property
    def dashboard_lock(self) -> Path:
        return self.folder / "dashboard.lock"

    @property
    def dashboard_opener(self) -> Path:
        """Leads a browser to the dashboard: what stands on a command line everybody can read."""
        return self.folder / "dashboard.html"

    @property
    def readers(self) -> Path:
        """The authority of those who may read the metrics page."""
        return self.certificates / "metrics"

    @property
    def asking(self) -> Path:
        """The token and the authority of those who may ask models; both end with the cluster."""
        return self.certificates / "serving"

    @property
    def controller_place(self) -> Path:
        """Exists where the controller runs on a host of the cluster: which one."""
        return self.folder / "seat.json"

    @property
    def allocation(self) -> Path:
        """Which allocation of a batch system lends the hosts."""
        return self.folder / "allocation.json"

    @property
    def recalled(self) -> Path:
        """What the hosts kept, for a controller on a host that takes the cluster over: it begins with that."""
        return self.folder / "recalled.json"

    @property
    def login(self) -> Path:
        """How a controller that runs on a host logs in to the others."""
        return self.folder / "login"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    def job(self, key: str) -> Path:
        return self.jobs / key

    @property
    def ledger(self) -> Path:
        """The ids that jobs have had; stays after `down`."""
        return self.folder / "job-ids.json"

    def host(self, name: str) -> Path:
        return self.folder / "hosts" / name


def environments_of(agent_folder: Path) -> Path:
    """Find where an agent makes Python environments for jobs; all clusters of this user on its host share them."""
    return agent_folder.parents[3] / "environments"


def make_socket_folder(base: Path) -> Path:
    """Make a 0700 folder whose socket paths fit into the kernel's 107 bytes."""
    inside = base / "run"
    if len(os.fsencode(inside)) + LONGEST_SOCKET_NAME <= LONGEST_SOCKET_PATH:
        return private_folder(inside)
    import tempfile

    runtime = os.environ.get("XDG_RUNTIME_DIR")
    for parent in (runtime, tempfile.gettempdir(), "/tmp"):
        if parent and Path(parent).is_dir():
            made = Path(tempfile.mkdtemp(prefix="dtf-", dir=parent))
            if len(os.fsencode(made)) + LONGEST_SOCKET_NAME <= LONGEST_SOCKET_PATH:
                return made
            made.rmdir()
    raise LauncherError(
        f"no folder with a path short enough for sockets; {inside} is too long",
        "set DTFCTL_HOME to a folder with a shorter path",
    )
