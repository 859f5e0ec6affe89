"""How a step over several parts goes from its first RUN to its end: a machine without threads, clocks or sockets.

Whoever runs a step tells the coordinator what has happened and does what it answers. Parts are started one after the
other. The first real error of a part, or whoever cancels the step, makes it end: no further part is started, those that
run are told to end, and have some time for that. Once no part is waited for any more the step has finished: each part
that was started is told to forget it, unless the step succeeded and its parts have done so themselves.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from dtfctl.runtime.framework.errors import OpError, UnavailableError
from dtfctl.runtime.steps.grace import grace_s

LONGEST_STORY = 256
"""Events that are told of a step; of more, it is told how many."""


class Do(enum.Enum):
    """What the one who runs a step is to do."""

    RUN = "run"
    """Start a part, and say `started`, after `lost` if it could not be."""
    CANCEL = "cancel"
    """Tell a part to end."""
    CLEANUP = "clean up"
    """Have a part forget the step."""
    FINISHED = "finished"
    """Go on: there is an error, or there are results."""


class Instruction(NamedTuple):
    """One thing to do, and for which part; "" for the whole step."""

    do: Do
    part: str = ""


Instructions: TypeAlias = tuple[Instruction, ...]
_FINISHED = Instruction(Do.FINISHED)
_NOTHING: Instructions = ()
_JUST_FINISHED: Instructions = (_FINISHED,)


class Parts:
    """Names a signature's parts, one a task, in the order they are started.

    Args:
        names: of the tasks.
        quiet: those of them that tell of their end only if they fail or are cancelled, since others cannot end well
            without them.
    """

    __slots__ = ("names", "quiet", "runs")

    def __init__(self, names: Sequence[str], quiet: Collection[str] = ()) -> None:
        self.names = tuple(names)
        self.quiet = frozenset(quiet)
        self.runs: tuple[Instructions, ...] = tuple((Instruction(Do.RUN, name),) for name in self.names)


class Coordinator:
    """Decides what is to be done in one step. Not for several threads at once.

    Every method but `begin` tells of one event. All give what is to be done about it, in that order; nothing once the
    step has finished. Times are seconds of any clock that does not go back.

    Args:
        parts: what is to be run.
        keeps: parts that succeeded remember the step until they are told to forget it.

    Attributes:
        results: what parts that succeeded gave, by name.
        is_ending: the step has failed or was cancelled.
        is_finished: nothing is waited for any more.
    """

    __slots__ = (
        "_begun",
        "_derived",
        "_heard",
        "_keeps",
        "_log",
        "_parts",
        "_pending",
        "_quiet",
        "_real",
        "_reason",
        "_to_end",
        "_until",
        "is_ending",
        "is_finished",
        "results",
    )

    def __init__(self, parts: Parts, keeps: bool = False) -> None:
        self.results: dict[str, Any] = {}
        self.is_ending = False
        self.is_finished = False
        self._parts = parts
        self._keeps = keeps
        # How many parts were told to be run, and of how many it was heard that they were: at most one fewer.
        self._begun = self._heard = 0
        self._pending: set[str] = set()
        self._quiet: set[str] = set()
        # Parts that were told to end.
        self._to_end: set[str] = set()
        self._real: OpError | None = None
        self._derived: OpError | None = None
        self._reason: OpError | None = None
        self._until = 0.0
        # A few events a part, so it needs no bound.
        self._log: list[tuple[str, str]] = []

    # What has happened ------------------------------------------------------------------------------------------------

    def begin(self) -> Instructions:
        """Begin the step. Call once, before anything else but `cancelled`."""
        return self._next()

    def started(self, part: str) -> Instructions:
        """Note that a RUN was done, or tried: the part may have been started."""
        self._log.append(("ran", part))
        self._heard = self._begun
        if self.is_ending:
            return (self._told(part),) if part in self._pending else self._end_if_over()
        if self._derived is not None and part in self._parts.quiet and part in self._pending | self._quiet:
            self._quiet.discard(part)
            self._pending.add(part)
            return (self._told(part), *self._next())
        return self._next()

    def done(self, part: str, result: Any = None) -> Instructions:
        """Note that a part has ended well."""
        if part in self._pending:
            self._pending.discard(part)
        elif part in self._quiet:
            self._quiet.discard(part)
        else:
            return _NOTHING
        self._log.append(("done", part))
        self.results[part] = result
        return _NOTHING if self._pending else self._end_if_over()

    def failed(self, part: str, error: OpError, now: float) -> Instructions:
        """Note that a part has ended with an error."""
        if part not in self._pending and part not in self._quiet:
            return _NOTHING
        self._pending.discard(part)
        self._quiet.discard(part)
        if error.derived:
            self._log.append((f"ended, as something else failed ({type(error).__name__}):", part))
            self._derived = self._derived or error
            # What it follows from may be heard from those that otherwise say nothing.
            return (*self._cancel_quiet(), *self._end_if_over())
        self._log.append((f"failed with {type(error).__name__}:", part))
        self._real = self._real or error
        return self._end_soon(error, now)

    def lost(self, part: str, error: OpError, now: float) -> Instructions:
        """Note that a part can be heard no more."""
        if part in self._pending or part in self._quiet:
            self._log.append(("lost", part))
        return self.failed(part, error, now)

    def cancelled(self, reason: OpError, now: float) -> Instructions:
        """Note that somebody wants the step to end."""
        if self.is_ending or self.is_finished:
            return _NOTHING
        self._reason = reason
        self._log.append((f"cancelled with {type(reason).__name__}", ""))
        return self._end_soon(reason, now)

    def abandoned(self, reason: OpError) -> Instructions:
        """Note that whoever runs the step goes away, as after Ctrl-C: it ends now, whatever still runs."""
        if self.is_finished:
            return _NOTHING
        self._reason = self._reason or reason
        self._log.append(("abandoned", ""))
        self.is_ending = True
        self._heard = self._begun
        self._pending.clear()
        return self._end_if_over()

    def tick(self, now: float) -> Instructions:
        """Note what time it is: parts that were to end and have not in time are waited for no longer."""
        if not self.is_ending or self.is_finished or now < self._until:
            return _NOTHING
        for part in sorted(self._pending.intersection(self._started())):
            self._pending.discard(part)
            self._log.append(("given up", part))
            late = UnavailableError(f"{part} did not end its part in time after cancelling", derived=True)
            self._derived = self._derived or late
        return self._end_if_over()

    # What has come of it ----------------------------------------------------------------------------------------------

    @property
    def ends_by(self) -> float | None:
        """The time at which `tick` gives up what has not ended; None while the step is not to end."""
        return self._until if self.is_ending and not self.is_finished else None

    @property
    def pending(self) -> frozenset[str]:
        """Parts that were started and whose end is waited for."""
        return frozenset(self._pending.intersection(self._started()))

    @property
    def error(self) -> OpError | None:
        """What to report: a part's first real error, else why the step was cancelled, else what followed from it."""
        if self._real is not None:
            return self._real
        if self._reason is not None and not self._reason.derived:
            return self._reason
        return self._derived or self._reason

    def story(self) -> str:
        """Tell what has happened, in order, for a person."""
        told = []
        for event, parts in itertools.groupby(self._log[:LONGEST_STORY], lambda entry: entry[0]):
            names = ", ".join(part for _, part in parts if part)
            told.append(f"{event} {names}".rstrip())
        more = len(self._log) - LONGEST_STORY
        if more > 0:
            told.append(f"and {more} events more")
        return "; ".join(told)

    # ------------------------------------------------------------------------------------------------------------------

    def _started(self) -> tuple[str, ...]:
        return self._parts.names[: self._heard]

    def _next(self) -> Instructions:
        index = self._begun
        if self.is_ending or index == len(self._parts.names):
            return self._end_if_over()
        self._begun = index + 1
        part = self._parts.names[index]
        (self._quiet if part in self._parts.quiet else self._pending).add(part)
        return self._parts.runs[index]

    def _end_soon(self, why: OpError, now: float) -> Instructions:
        """Tell all that run to end, unless they know."""
        if self.is_ending:
            return self._end_if_over()
        self.is_ending = True
        self._until = now + grace_s(why)
        told = [self._told(part) for part in self._started() if part in self._pending and part not in self._to_end]
        return (*told, *self._cancel_quiet(), *self._end_if_over())

    def _cancel_quiet(self) -> Instructions:
        """Tell those to end that say nothing otherwise: told, they do. One not heard of is told when it was started."""
        if not self._quiet:
            return _NOTHING
        told = tuple(self._told(part) for part in self._started() if part in self._quiet)
        self._pending |= self._quiet
        self._quiet.clear()
        return told

    def _told(self, part: str) -> Instruction:
        self._log.append(("told to end", part))
        self._to_end.add(part)
        return Instruction(Do.CANCEL, part)

    def _end_if_over(self) -> Instructions:
        if self.is_finished or self._pending or self._heard != self._begun:
            return _NOTHING
        if not self.is_ending and self._begun < len(self._parts.names):
            return _NOTHING
        self.is_finished = True
        self._quiet.clear()
        if self._real is self._reason is self._derived is None and not self._keeps:
            return _JUST_FINISHED
        for part in self._started():
            self._log.append(("to forget it", part))
        return (*(Instruction(Do.CLEANUP, part) for part in self._started()), _FINISHED)


def first_error(errors: Iterable[OpError]) -> OpError | None:
    """Choose the error to report of several: the first real one, else the first."""
    found = list(errors)
    return next((error for error in found if not error.derived), found[0] if found else None)
