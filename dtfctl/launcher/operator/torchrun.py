"""A command line of torchrun as a job: which processes it means, and what of it has another place here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtfctl.launcher.errors import UsageError

VALUES = frozenset({"nnodes", "nproc-per-node", "max-restarts", "monitor-interval", "start-method", "role", "log-dir"})
IGNORED = frozenset(
    {
        *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "node-rank", "master-addr", "master-port"),
        *("local-addr", "monitor-interval", "start-method", "role", "log-dir", "redirects", "tee"),
        *("logs-specs", "local-ranks-filter", "signals-to-handle", "duplicate-stdout-filters"),
        *("duplicate-stderr-filters", "event-log-handler", "shutdown-timeout", "numa-binding"),
    }
)
"""Where to meet, who is who and where output goes: the cluster knows."""
SHORT = {"r": "redirects", "t": "tee", "m": "module"}
FLAGS = frozenset({"standalone", "run-path"})
COUNTED_THERE = frozenset({"auto", "cpu", "gpu", "xpu"})
"""Numbers of processes that torchrun finds out on each host; a cluster has a worker for each."""
DEFAULT_RESTARTS = 0
REFUSED = {
    "module": "give the script's path; modules beside it go along with: dtfctl submit --working-dir",
    "no-python": "a program that is no Python script: dtfctl submit --framework command",
    "virtual-local-rank": "ranks of a host have LOCAL_RANK 0, 1 and so on, and see all its GPUs: leave it out",
}


@dataclass(frozen=True, slots=True)
class Meant:
    """What a command line of torchrun asks for."""

    script: str
    args: tuple[str, ...]
    workers: int | None
    """None: all of the cluster's."""
    min_workers: int | None = None
    retries: int = DEFAULT_RESTARTS
    ignored: tuple[str, ...] = ()
    """Options that are the cluster's business."""

    @property
    def words(self) -> list[str]:
        """Write it as `dtfctl submit` takes it."""
        least = [] if self.min_workers is None else ["--min-workers", str(self.min_workers)]
        retries = ["--retries", str(self.retries)] if self.retries else []
        workers = [] if self.workers is None else ["--workers", str(self.workers)]
        return ["--framework", "torch", *workers, *least, *retries, self.script, *self.args]


def read(words: Sequence[str]) -> Meant:
    """Read what follows `torchrun`.

    >>> read(["--nnodes=1:4", "--nproc_per_node", "2", "train.py", "--lr", "0.1"]).words
    ['--framework', 'torch', '--workers', '8', '--min-workers', '2', 'train.py', '--lr', '0.1']

    Raises:
        UsageError: it has no script, or asks for what there is not here.
    """
    given: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word, _, value = rest.pop(0).partition("=")
        name = word.lstrip("-").replace("_", "-")
        name = SHORT.get(name, name)
        if name in FLAGS:
            continue
        if name in REFUSED:
            raise UsageError(f"`{word}` cannot be taken over", REFUSED[name])
        if name not in VALUES | IGNORED:
            raise UsageError(f"torchrun has no `{word}`, as far as is known here", "write it as `dtfctl submit`")
        if not value:
            if not rest:
                raise UsageError(f"`{word}` needs a value", "as torchrun has it: --nproc-per-node=2")
            value = rest.pop(0)
        given[name] = value
    if not rest:
        raise UsageError("there is no script in this command line of torchrun", "dtfctl torchrun [OPTIONS] SCRIPT")
    low, colon, high = given.get("nnodes", "1").partition(":")
    fewest, nodes = _count(low, "--nnodes"), _count(high if colon else low, "--nnodes")
    if fewest > nodes:
        raise UsageError(f"`--nnodes {low}:{high}` ends before it begins", "write the smaller number first")
    text = given.get("nproc-per-node", "1")
    each = None if text in COUNTED_THERE else _count(text, "--nproc-per-node")
    if each is None and fewest < nodes:
        raise UsageError(
            f"with `--nnodes {low}:{high}` the number of `--nproc-per-node {text}` has to be known",
            "say how many: --nproc-per-node=4",
        )
    return Meant(
        script=rest[0],
        args=tuple(rest[1:]),
        workers=None if each is None else nodes * each,
        min_workers=None if each is None or fewest == nodes else fewest * each,
        retries=_count(given.get("max-restarts", str(DEFAULT_RESTARTS)), "--max-restarts", 0),
        ignored=tuple(f"--{name}" for name in given if name in IGNORED),
    )


def _count(text: str, option: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"`{option} {text}` is no number", "say how many")
    return int(text)
