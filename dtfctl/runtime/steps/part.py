"""One task's part of a step: how it is run, by whoever runs it (a master, for another's master, or for a client)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.keys import DEAD, client_key
from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError, OpError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.rendezvous.frames import Message
from dtfctl.runtime.steps import recording
from dtfctl.runtime.steps.coordinator import first_error
from dtfctl.runtime.steps.step import Step
from dtfctl.runtime.steps.tally import STEPS, UPDATES
from dtfctl.runtime.steps.threads import submit

if TYPE_CHECKING:
    from dtfctl.runtime.steps.worker_session import Partition


class Part:
    """Runs a partition, with what is fed and fetched in the order of who runs it; from any thread, also at once.

    A plan on one host device takes what is fed as arguments. Where there are several, or a GPU, it meets them in the
    step's table.

    Args:
        feeds, fetches: names of tensors, all that the partition takes and gives among them. None in partial runs,
            whose values come and go by the table.

    Raises:
        InvalidArgumentError: some that it takes or gives are not among them.
    """

    __slots__ = ("_args", "_feeds", "_fetches", "_results", "_table", "partition")

    def __init__(self, partition: Partition, feeds: Sequence[str] = (), fetches: Sequence[str] = ()) -> None:
        self.partition = partition
        self._feeds, self._fetches = list(feeds), list(fetches)
        all_ends = [executor.ends for executor in partition.executors]
        if not {name for ends in all_ends for name in ends.feeds} <= set(feeds):
            raise InvalidArgumentError("A part is to be run without what it is fed")
        if {name for ends in all_ends for name in ends.fetches} != set(fetches):
            raise InvalidArgumentError("Other tensors are to be fetched from a part than it gives")
        self._table = len(all_ends) > 1 or partition.executors[0].is_gpu
        self._args = [] if self._table else [self._feeds.index(name) for name in all_ends[0].feeds]
        self._results = [] if self._table else [all_ends[0].fetches[name] for name in fetches]

    def run(
        self,
        step: Step,
        values: Sequence[Any] = (),
        trace: StepTrace | None = None,
        last: tuple[str, Message] | None = None,
    ) -> tuple[list[Any], bool]:
        """Run it once; returns when all of it has ended.

        Args:
            last: a message, and the task it is for, to go out with the last tensors for that task.

        Returns:
            The fetched values, `DEAD` for those on a branch not taken, and whether `last` went out.

        Raises:
            OpError: the first error that is not derived, else the first. The step is then cancelled in this task.
        """
        partition = self.partition
        step.is_begun = True
        step.peers |= partition.peers
        rendezvous, table = step.rendezvous, step.table
        table.leads = rendezvous.holds_back = partition.is_light
        recorder = recording.ACTIVE
        if recorder is not None and not recorder.takes(step.step_id):
            recorder = None
        if recorder is not None and trace is None:
            trace = recorder.trace_of(partition, step.step_id)
        job = partition.session.job
        seen = UPDATES.begin(job) if partition.updates else -1
        started = time.perf_counter()
        if self._table:
            fetched = self._run_by_table(step, values, trace)
        else:
            executor = partition.executors[0]
            results = executor.results()
            error = _run_device(executor, partition, step, trace, ([values[i] for i in self._args], results))
            if error is not None:
                raise error
            fetched = [results[i] for i in self._results]
        try:
            went = rendezvous.flush(*last) if last is not None else rendezvous.flush()
        except OpError as e:
            raise ended_with(e, step.token) from e.__cause__
        taken = time.perf_counter() - started
        if seen >= 0:
            between = UPDATES.end(job, seen)
            if recorder is not None:
                recorder.updated(partition, between)
        if recorder is not None:
            recorder.ended(partition, step.step_id, taken, trace)
        partition.ran(taken, table)
        if not partition.feeds_others:
            STEPS.add(taken, table.waited_s)
        return fetched, went

    def _run_by_table(self, step: Step, values: Sequence[Any], trace: StepTrace | None) -> list[Any]:
        partition, table = self.partition, step.table
        for name, value in zip(self._feeds, values):
            table.send(client_key(name), value, False)
        first, *others = partition.executors
        running = [submit(_run_device, executor, partition, step, trace) for executor in others]
        errors = [_run_device(first, partition, step, trace), *(future.result() for future in running)]
        error = first_error(e for e in errors if e is not None)
        if error is not None:
            raise error
        found = {name: table.take(client_key(name)) for name in dict.fromkeys(self._fetches)}
        fetched = []
        for name in self._fetches:
            value = found[name]
            if value is None:
                raise ended_with(InternalError(f"The step ended without a value for {name}"), step.token)
            fetched.append(DEAD if value[1] else value[0])
        return fetched


def _run_device(
    executor: Executor,
    partition: Partition,
    step: Step,
    trace: StepTrace | None,
    by_hand: tuple[list[Any], list[Any]] | None = None,
) -> OpError | None:
    """Run a device's share of a part, with arguments and room for results if given by hand; what ended it."""
    device, session, token = executor.device, partition.session, step.token
    context = StepContext(
        step.step_id,
        device,
        session.resources[device.name],
        step.resources,
        token,
        step.rendezvous,
        executor.functions,
        session_handle=session.handle,
        trace=trace,
        collectives=partition.collectives,
        feeds_others=partition.feeds_others,
    )
    try:
        token.check()
        if by_hand is None:
            executor.run(context)
        else:
            executor.run_direct(context, *by_hand)
    except OpError as e:
        error = e
    except Exception as e:
        error = InternalError(f"{type(e).__name__}: {e}")
        error.__cause__ = e
    else:
        return None
    return ended_with(error, token)


def ended_with(error: OpError, token: CancellationToken) -> OpError:
    """Give what ended a part of a step: the error, or why the step was cancelled; it is cancelled now."""
    reason = token.reason
    if reason is not None and error.derived:
        return reason if not reason.derived else error
    token.cancel(error)
    return error
