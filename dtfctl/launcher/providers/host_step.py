"""On a host: where a batch system has started this as a step, which lasts as long as anything that it has started.

Such a system ends all of a step when its first process ends, and an agent is to stay. So that first process only waits,
and another one serves the launcher.
"""

from __future__ import annotations

import os
import signal

PR_SET_CHILD_SUBREAPER = 36
OF_A_STEP = ("SLURM_STEP", "SLURM_TASK", "SLURM_SRUN", "SLURM_LAUNCH", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION", "PMI")
"""Variables of a step that are taken away: libraries that meet them would take each task for one of several."""
OF_A_PROCESS = frozenset(
    {
        *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_GTIDS"),
        *("SLURM_NNODES", "SLURM_NODELIST", "SLURM_UMASK", "SLURM_PRIO_PROCESS", "DTFCTL_STEP", "DTFCTL_CONNECTION"),
    }
)


def hold() -> None:
    """Go on in a fork, where this is a step; this process waits until all has ended that comes of it."""
    kind = os.environ.get("DTFCTL_STEP", "")
    if not kind:
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork():
        _wait_for_all()
    granted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if granted == "NoDevFiles" or (kind == "gpus" and granted is None):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for name in [
        name for name in os.environ if name.startswith(OF_A_STEP) or name in OF_A_PROCESS - {"DTFCTL_CONNECTION"}
    ]:
        del os.environ[name]


def _wait_for_all() -> None:
    """Wait until nothing is left of what this has started; agents and their tasks become its children."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    first = -1
    while True:
        try:
            _, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(max(0, first))
        if first < 0:
            code = os.waitstatus_to_exitcode(status)
            first = code if code >= 0 else 128 - code
