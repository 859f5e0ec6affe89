"""Which way a step goes, and why: the one place where that is decided.

Debug messages of this module's logger tell of each signature how its steps go.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)


class StepPath(enum.Enum):
    """A way to run a step."""

    DIRECT = "direct"
    """A call of the step's one plan as a function, in the process of the master (services/direct.py)."""
    MASTER = "master"
    """The master starts each task's part (services/step_run.py)."""
    CLIENT = "client"
    """A client in another process starts each task's part itself (client/step_runner.py)."""
    CALL = "call"
    """One CALL on a socket of the host asks the master, which goes on by DIRECT or MASTER (client/local_steps.py)."""
    RPC = "rpc"
    """RunStep over gRPC asks the master, which goes on by DIRECT or MASTER (client/grpc_backend.py)."""


@dataclass(frozen=True)
class PathChoice:
    """A way that was chosen.

    Attributes:
        reason: why no shorter way would do, or what this one rests on.
    """

    path: StepPath
    reason: str

    def __str__(self) -> str:
        return f"{self.path.value}: {self.reason}"


@dataclass(frozen=True)
class StepFacts:
    """What the way of a step depends on. What is not known has its default.

    Attributes:
        has_options: RunOptions or RunMetadata come with it, as with every RunStep.
        has_timeout: the session has an operation_timeout_in_ms.
        is_in_process: who runs it is in the process of the session's master.
        only_rpc: why the master is to be reached by gRPC only, as far as the session is concerned; "" if it is not.
        elsewhere: a task of the session that is not on the host of its master; "" if there is none.
        others: tasks with a part in it, other than the master's.
        not_one_plan: why the part of the master's task is not one plan that meets nobody; "" if it is.
    """

    has_options: bool = False
    has_timeout: bool = False
    is_in_process: bool = False
    only_rpc: str = ""
    elsewhere: str = ""
    others: Sequence[str] = ()
    not_one_plan: str = ""


def choose_path(facts: StepFacts) -> PathChoice:
    """Choose the shortest way for a step."""
    if facts.is_in_process:
        if facts.has_options:
            return PathChoice(StepPath.MASTER, "it has RunOptions or RunMetadata")
        if facts.has_timeout:
            return PathChoice(StepPath.MASTER, "the session has an operation_timeout_in_ms")
        if facts.others:
            return PathChoice(StepPath.MASTER, f"it has parts in {', '.join(sorted(facts.others))}")
        if facts.not_one_plan:
            return PathChoice(StepPath.MASTER, facts.not_one_plan)
        return PathChoice(StepPath.DIRECT, "it is one plan of the master's own task")
    if facts.only_rpc:
        return PathChoice(StepPath.RPC, facts.only_rpc)
    if facts.has_timeout:
        return PathChoice(StepPath.RPC, "the session has an operation_timeout_in_ms")
    if facts.has_options:
        return PathChoice(StepPath.RPC, "it has RunOptions or RunMetadata")
    if facts.elsewhere:
        return PathChoice(StepPath.CALL, f"{facts.elsewhere} is not on the host of the session's master")
    if not facts.others:
        return PathChoice(StepPath.CALL, "only the master's own task has a part in it")
    return PathChoice(StepPath.CLIENT, "all tasks of the session are on this host")


def tell(choice: PathChoice, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> None:
    """Log which way the steps of a signature go."""
    if log.isEnabledFor(logging.DEBUG):
        what = ", ".join([*fetches, *targets]) or "nothing"
        fed = f" (fed: {', '.join(feeds)})" if feeds else ""
        log.debug("steps of %s%s: %s", what, fed, choice)
