"""Why a command could not be done; each class is one exit code of the command line.

LauncherError
├── UsageError             2    wrong arguments
├── SpecError              3    the cluster file is not valid
│   └── InvalidSpec             with every problem and its place (spec/problems.py)
├── ScriptError            3    the script to submit is missing or does not compile
├── NotFound               4
│   ├── NoSuchCluster
│   ├── NoSuchTask
│   ├── NoSuchHost
│   └── NoSuchJob
├── PartlyDone             5    usable, but not complete
├── LoginError             6    no needed host could be logged in to
├── Conflict               7    another operation, or the current state, is in the way
│   ├── Superseded              a newer controller of the cluster has spoken
│   └── OtherVersion            two processes are of versions that do not understand each other
├── ControllerUnreachable  8
├── SlurmSilent            1    Slurm's controller cannot be asked (providers/slurm/commands.py)
├── RaySilent              1    Ray cannot be asked (providers/ray/client.py)
├── PeerUnavailable        8    another process of the cluster does not answer (rpc/method.py)
├── DeadlineExpired        9    the time limit ran out; work goes on
├── TransferFailed         1    a file could not be read, written or sent whole
├── ConnectionLost         255  the host went away while it was used
├── HostFailed             1    a host cannot be used (providers/base.py)
├── ClusterFailed          1    the tasks do not run
│   ├── FolderGone              an agent's folder was deleted (agent/loop.py)
│   ├── NoSpace                 the disk is full
│   └── PortTaken               a fixed port belongs to another process
└── InternalError          125  a bug
"""

from __future__ import annotations

from typing import ClassVar

from dtfctl.errors import DtfctlError


class LauncherError(DtfctlError):
    """A command that could not be done: `str()` says what and why, `hint` what to do next (or is empty)."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LauncherError):
    """The arguments make no sense together."""

    exit_code = 2


class SpecError(LauncherError):
    """The cluster file is not valid."""

    exit_code = 3


class ScriptError(LauncherError):
    """The script to submit is missing, unreadable or not Python."""

    exit_code = 3


class NotFound(LauncherError):
    """What the command names does not exist."""

    exit_code = 4


class NoSuchCluster(NotFound):
    """No cluster of this name, or no cluster at all, is up."""


class NoSuchTask(NotFound):
    """A selector matches no task."""


class NoSuchHost(NotFound):
    """The cluster has no host of this name."""


class NoSuchJob(NotFound):
    """No job has this id."""


class PartlyDone(LauncherError):
    """Some of it was done: usable, but not complete."""

    exit_code = 5


class LoginError(LauncherError):
    """None of the hosts that are needed let us in."""

    exit_code = 6


class Conflict(LauncherError):
    """Another operation runs, or the current state does not allow this one."""

    exit_code = 7


class Superseded(Conflict):
    """A newer controller of the cluster has spoken."""


class OtherVersion(Conflict):
    """Two processes of the cluster are of versions that do not understand each other."""


class ControllerUnreachable(LauncherError):
    """The controller neither answers nor could be started again."""

    exit_code = 8


class DeadlineExpired(LauncherError):
    """The caller's time limit ran out; what was begun goes on."""

    exit_code = 9


class ClusterFailed(LauncherError):
    """The tasks that were asked for do not run."""

    exit_code = 1


class NoSpace(ClusterFailed):
    """The disk that holds the cluster's state is full."""


class PortTaken(ClusterFailed):
    """A port fixed by the spec belongs to another process."""


class TransferFailed(LauncherError):
    """A file could not be read, written, or sent whole."""

    exit_code = 1


class ConnectionLost(LauncherError):
    """The host, or the way to it, went away while a command or a transfer used it."""

    exit_code = 255


class InternalError(LauncherError):
    """A bug in dtfctl."""

    exit_code = 125


BY_NAME: dict[str, type[LauncherError]] = {
    cls.__name__: cls
    for cls in (
        LauncherError,
        UsageError,
        SpecError,
        ScriptError,
        NotFound,
        NoSuchCluster,
        NoSuchTask,
        NoSuchHost,
        NoSuchJob,
        PartlyDone,
        LoginError,
        Conflict,
        Superseded,
        OtherVersion,
        ControllerUnreachable,
        DeadlineExpired,
        ClusterFailed,
        NoSpace,
        PortTaken,
        TransferFailed,
        ConnectionLost,
        InternalError,
    )
}
"""How an error crosses a process boundary: by the name of its class."""


def name_on_wire(error: LauncherError) -> str:
    """Tell what an error is called where it arrives: the nearest class that both ends can make of a message and a hint.

    `PeerUnavailable` is not among them, since there it would be said of the process that was called.
    """
    return next(cls.__name__ for cls in type(error).__mro__ if BY_NAME.get(cls.__name__) is cls)


def from_wire(name: str, message: str, hint: str) -> LauncherError:
    """Make the error again."""
    return BY_NAME.get(name, LauncherError)(message, hint)
