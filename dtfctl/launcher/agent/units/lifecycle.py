"""The life of one process, as pure functions: orders and happenings in, a new record and at most one action out.

    pending -> starting -> running -> stopping -> done | failed | crashed | stopped

- The record holds the incarnation; the caller stores the record before it carries the action out, so a number is
  never used twice.
- At most one incarnation is alive: `start` is only asked for when the former one has ended.
- What is ordered to stop, stays stopped. `done`, `failed` and `crashed` are left only by a restart request.

>>> record, action = advance(Record(), Order(run=True), now=0.0)
>>> record.state, record.incarnation, action
('starting', 1, 'start')
>>> record = ended(record, Order(run=True), RestartPolicy(), Ending(exit_code=1), now=3.0, rand=0.5)
>>> record.state, record.retry_at, record.reason
('pending', 3.0, 'exit code 1')
>>> advance(record, Order(run=False), now=3.0)[0].state
'stopped'
"""

from __future__ import annotations

import signal
from typing import Literal, TypeAlias

from dtfctl.health.restart import Ending, GiveUp, RestartHistory, RestartPolicy, decide
from dtfctl.launcher.model import ALIVE, GAVE_UP, RESTARTED, TaskState
from dtfctl.values import field, replace, value

Action: TypeAlias = Literal["start", "terminate", "kill"]

NO_SPACE_RETRY_S = 1.0
STOPPED = "stopped on request"
KILL_AGAIN_S = 5.0
"""A process in an uninterruptible wait ignores SIGKILL until that ends; then the next one finds it."""


@value
class Order:
    """What is wanted of the process."""

    run: bool
    incarnation_floor: int = 0
    restart_request: int = 0
    grace_s: float = 10.0
    now: bool = False
    why: str = STOPPED
    """Why it is not to run."""
    why_again: str = RESTARTED
    """Why it is to start again, by `restart_request`."""
    starts_floor: int = 0


@value
class Record:
    """All that is remembered of the process. Times are of CLOCK_MONOTONIC, which all processes of a boot share."""

    state: TaskState = "pending"
    incarnation: int = 0
    restarts: int = 0
    restart_handled: int = 0
    history: RestartHistory = field(default_factory=RestartHistory)
    started_at: float | None = None
    retry_at: float | None = None
    kill_at: float | None = None
    killed: bool = False
    """SIGKILL was sent."""
    hung: str = ""
    """Why we are killing it, when it did not end by itself."""
    exit_code: int | None = None
    reason: str = ""
    fault: str = ""
    """How it ended last, if by itself: where it was held back then until others had ended, that is why it starts."""
    port: int = 0
    ports: tuple[int, ...] = ()
    """The ports of a job's process, for generation `ports_of` of its job."""
    ports_of: int = 0
    gpus: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()
    """The cores that the process is kept on, where the kernel does not count its time."""
    limits: str = ""
    """The way in which the limits are held, for people."""
    out_of_memory: bool = False
    """Whether the memory limit caused the newest end."""
    keeper_pid: int = 0
    keeper_ticks: int = 0
    task_pid: int = 0
    task_ticks: int = 0

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE


def advance(record: Record, order: Order, now: float) -> tuple[Record, Action | None]:
    """Take one step towards the order; call again at `next_time`, and whenever something changed."""
    if record.state == "stopping":
        if record.kill_at is not None and now >= record.kill_at:
            return replace(record, kill_at=now + KILL_AGAIN_S, killed=True), "kill"
        # The user has become less patient.
        sooner = now + (0.0 if order.now else order.grace_s)
        if record.kill_at is not None and not record.killed and not order.run and sooner < record.kill_at:
            return replace(record, kill_at=sooner), None
        return record, None
    asked = order.restart_request > record.restart_handled
    if record.is_alive:
        if order.run and not asked:
            return record, None
        grace = 0.0 if order.now else order.grace_s
        record = replace(record, state="stopping", kill_at=now + grace, killed=order.now)
        return record, "kill" if order.now else "terminate"
    if not order.run:
        if record.state in GAVE_UP or record.state == "stopped":
            return record, None
        return replace(record, state="stopped", retry_at=None, reason=order.why), None
    if asked:
        record = _forgiven(record, order)
    elif record.state in GAVE_UP:
        return record, None
    if record.retry_at is not None and now < record.retry_at:
        return record, None
    return _starting(record, order, now), "start"


def _forgiven(record: Record, order: Order) -> Record:
    return replace(
        record,
        state="pending",
        retry_at=None,
        history=RestartHistory(),
        restart_handled=order.restart_request,
        reason="",
        fault="",
    )


def _starting(record: Record, order: Order, now: float) -> Record:
    return replace(
        record,
        state="starting",
        incarnation=max(record.incarnation, order.incarnation_floor) + 1,
        restarts=max(_starts(record), order.starts_floor),
        restart_handled=max(record.restart_handled, order.restart_request),
        started_at=now,
        retry_at=None,
        reason=record.fault if record.reason in (STOPPED, order.why_again) else record.reason,
        fault="",
        kill_at=None,
        killed=False,
        hung="",
        out_of_memory=False,
        keeper_pid=0,
        keeper_ticks=0,
        task_pid=0,
        task_ticks=0,
    )


def _starts(record: Record) -> int:
    return record.restarts + 1 if record.incarnation else 0


def next_time(record: Record) -> float | None:
    """Say when `advance` has something to do without being told."""
    return record.kill_at if record.state == "stopping" else record.retry_at


def ready(record: Record) -> Record:
    """Note that the process says that it serves."""
    return replace(record, state="running", reason="") if record.state == "starting" else record


def hangs(record: Record, why: str, now: float) -> Record:
    """Give the process up: the next `advance` kills it."""
    if record.state not in ("starting", "running"):
        return record
    return replace(record, state="stopping", hung=why, kill_at=now)


def cannot_start(record: Record, why: str) -> Record:
    """Fail a start that is impossible (port taken, no GPU): trying again would change nothing."""
    return replace(record, state="failed", reason=why, exit_code=None, started_at=None)


def postponed(record: Record, now: float, why: str) -> Record:
    """Postpone a start until there is space; that is no failure of the process."""
    return replace(record, state="pending", retry_at=now + NO_SPACE_RETRY_S, reason=why)


def ended(record: Record, order: Order, policy: RestartPolicy, ending: Ending, *, now: float, rand: float) -> Record:
    """Decide by order and policy what comes next after a process's end."""
    asked = order.restart_request > record.restart_handled
    wanted_end = record.state == "stopping" and not record.hung
    ran_s = 0.0 if record.started_at is None else now - record.started_at
    record = replace(record, exit_code=ending.exit_code, kill_at=None, started_at=None)
    if wanted_end or (asked and order.run):
        if order.run:
            return replace(_forgiven(record, order), reason=order.why_again if asked else STOPPED)
        return replace(record, state="stopped", retry_at=None, reason=order.why)
    reason = record.hung or describe(ending)
    if record.hung:
        ending = replace(ending, forced=True)
    history, decision = decide(policy, record.history, ran_s=ran_s, ending=ending, now=now, rand=rand)
    record = replace(record, history=history, reason=reason, fault=reason)
    if isinstance(decision, GiveUp):
        text = reason if decision.reason in ("", reason) else f"{reason}; {decision.reason}"
        return replace(record, state=decision.state, retry_at=None, reason="" if decision.state == "done" else text)
    if not order.run:
        return replace(record, state="stopped", retry_at=None)
    return replace(record, state="pending", retry_at=now + decision.delay_s)


def describe(ending: Ending) -> str:
    """Describe an end: `exit code 3`, `killed by SIGKILL`."""
    if ending.signal:
        try:
            return f"killed by {signal.Signals(ending.signal).name}"
        except ValueError:
            return f"killed by signal {ending.signal}"
    if ending.exit_code is None:
        return "ended while nobody watched, exit code unknown"
    return f"exit code {ending.exit_code}"
