"""When to start a task again, and when to give up.

Waits grow with the failures since the last healthy run: 0, 0.5, 1, 2, 4 s ... (`RestartPolicy`), each with jitter so
that tasks do not restart in step. More than `attempts` restarts within `within_s` is a crash loop: give up, and only
the user starts it again. Counting in a window alone would let a task whose waits outlast the window fail for ever, so
failures since the last healthy run count as well.

>>> policy = RestartPolicy(jitter=0.0)
>>> history = RestartHistory()
>>> for second in range(6):
...     history, decision = decide(policy, history, ran_s=0.0, ending=Ending(exit_code=1), now=float(second), rand=0.5)
...     print(decision)
RestartAfter(delay_s=0.0)
RestartAfter(delay_s=0.5)
RestartAfter(delay_s=1.0)
RestartAfter(delay_s=2.0)
RestartAfter(delay_s=4.0)
GiveUp(state='crashed', reason='failed 6 times in 5 s')
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dtfctl.values import replace, value


@value
class RestartPolicy:
    """The spec's `restart` block. Times in seconds, jitter as a fraction."""

    when: Literal["failure", "always", "never"] = "failure"
    attempts: int = 5
    within_s: float = 600.0
    first_s: float = 0.0
    then_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.25
    healthy_after_s: float = 60.0
    never_exit: tuple[int, ...] = ()
    never_log: tuple[str, ...] = ()
    """Regular expressions; a match in what the process wrote makes its failure final."""
    limited: bool = False
    """Only a signal or a code in `only_exit` is followed by a restart: a job's own failures are final."""
    only_exit: tuple[int, ...] = ()
    earlier: int = 0
    """Failures elsewhere that count for `attempts`."""
    earlier_hosts: int = 0
    """The number of hosts on which those were."""
    together: bool = False
    """A failure is not followed by a restart of this process alone: whoever owns the group restarts all of it."""


@value
class Ending:
    """How a process ended. `exit_code` is 128 + signal for a signal; None when unknown."""

    exit_code: int | None
    signal: int | None = None
    forced: bool = False
    """We killed it because it hung: a failure, whatever its code."""

    log_match: str = ""
    """The pattern of `never_log` that its output matches."""
    final: bool = False
    """Whether a restart would meet the cause again: there is none."""

    @property
    def is_failure(self) -> bool:
        return self.forced or self.exit_code != 0


@value
class RestartHistory:
    """What a task's failures were; kept with the task, cleared by the user's restart."""

    failures: tuple[float, ...] = ()
    """Times of the failures within the window."""
    since_healthy: int = 0
    """Failures since the last run of at least `healthy_after_s`."""


@value
class RestartAfter:
    delay_s: float


@value
class GiveUp:
    """`done` ended well; `failed` is not to be retried; `crashed` was retried too often."""

    state: Literal["done", "failed", "crashed"]
    reason: str


Decision: TypeAlias = RestartAfter | GiveUp


def delay_s(policy: RestartPolicy, failures: int, rand: float) -> float:
    """Return the wait before the restart that follows the `failures`th failure in a row (from 1); `rand` is in [0,
    1)."""
    if failures <= 1:
        base = policy.first_s
    else:
        growth = policy.factor ** min(failures - 2, 64)
        base = min(policy.max_s, policy.then_s * growth)
    return max(0.0, base * (1.0 + policy.jitter * (2.0 * rand - 1.0)))


def decide(
    policy: RestartPolicy, history: RestartHistory, *, ran_s: float, ending: Ending, now: float, rand: float
) -> tuple[RestartHistory, Decision]:
    """Return what follows `ending` of a run of `ran_s` seconds at `now`, and the history after it."""
    if not ending.is_failure and policy.when != "always":
        return history, GiveUp("done", "ended with exit code 0")
    recent = tuple(t for t in history.failures if now - t < policy.within_s) + (now,)
    in_a_row = 1 if ran_s >= policy.healthy_after_s else history.since_healthy + 1
    history = replace(history, failures=recent, since_healthy=in_a_row)
    if policy.together or ending.final:
        return history, GiveUp("failed", "")
    if policy.when == "never":
        return history, GiveUp("failed", "restart.when is never")
    if not ending.forced and ending.exit_code in policy.never_exit:
        return history, GiveUp("failed", f"exit code {ending.exit_code} is in restart.never_when")
    if ending.log_match:
        return history, GiveUp("failed", f"its log matches {ending.log_match!r} of restart.never_when")
    if policy.limited and not _is_retryable(policy.only_exit, ending):
        return history, GiveUp("failed", f"exit code {ending.exit_code}")
    if len(recent) + policy.earlier > policy.attempts:
        return history, GiveUp("crashed", _often(policy, len(recent), f" in {now - recent[0]:.0f} s"))
    if in_a_row + policy.earlier > policy.attempts:
        return history, GiveUp("crashed", _often(policy, in_a_row, "") + " without a healthy run")
    return history, RestartAfter(delay_s(policy, in_a_row, rand))


def _often(policy: RestartPolicy, here: int, lasted: str) -> str:
    """Count all failures. Over several hosts nobody knows how long that took: each has a clock of its own."""
    if not policy.earlier:
        return f"failed {here} times{lasted}"
    return f"failed {here + policy.earlier} times on {policy.earlier_hosts + 1} hosts"


def _is_retryable(codes: tuple[int, ...], ending: Ending) -> bool:
    return ending.forced or ending.exit_code is None or ending.signal is not None or ending.exit_code in codes
