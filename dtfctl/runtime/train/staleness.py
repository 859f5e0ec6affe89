"""Asynchronous training whose workers do not run away from each other (Ho et al., 2013)."""

from __future__ import annotations

import time
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.ops import init_ops, variable_scope
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.train.session_run_hook import SessionRunHook

_AWAY = 1 << 62
"""The count of who has finished, or has not begun: nobody waits for it."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02


class BoundedStalenessHook(SessionRunHook):
    """Lets a worker begin a step only while it is at most so many steps ahead of the slowest one.

    Each run of the session counts as a step. All workers must build this hook for the same number of workers, where
    their variables are placed on the ps. Who dies holds up the others once they are ahead, until it is back; then it
    goes on from where the slowest of the others is.

    Args:
        bound: how many steps ahead; 0 keeps all in step.
        worker: which this is, from 0.
        workers: how many there are.

    Attributes:
        waits: how many steps had to wait.

    Raises:
        ValueError: the bound is below 0, or the worker is not one of them.
    """

    def __init__(self, bound: int, worker: int, workers: int) -> None:
        if bound < 0:
            raise ValueError(f"The bound of staleness is a number of steps from 0, not {bound}")
        if not 0 <= worker < workers:
            raise ValueError(f"Worker {worker} is not one of {workers}: they are counted from 0")
        self.waits = 0
        self._bound, self._worker, self._workers = bound, worker, workers
        self._own = self._slowest = 0
        self._coordinator: Any = None

    def begin(self) -> None:
        graph = context.get_default_graph()
        with graph.name_scope(None), graph.control_dependencies(None):
            counts = variable_scope.get_variable(
                "staleness/steps_of_workers",
                [self._workers],
                dtypes.int64,
                init_ops.Constant(_AWAY),
                trainable=False,
                use_resource=True,
            )
            with graph.colocate_with(counts.op):
                self._build(counts)

    def _build(self, counts: Any) -> None:
        one = convert_to_tensor([1], dtypes.int64)
        at = convert_to_tensor([self._worker])
        away = convert_to_tensor(_AWAY, dtypes.int64)

        def told() -> tuple[Any, Any]:
            read = counts.read_value()
            own = apply_op("GatherV2", params=read, indices=self._worker, axis=0)
            return own, apply_op("Min", input=read, reduction_indices=[0])

        def put(op: str, value: Any) -> Any:
            return make_op(op, resource=counts.handle, indices=at, updates=value, dtype=dtypes.int64)

        mask = [i == self._worker for i in range(self._workers)]
        others = apply_op(
            "Select", condition=mask, t=apply_op("Fill", dims=[self._workers], value=away), e=counts.value()
        )
        slowest_other = apply_op("Min", input=others, reduction_indices=[0])
        own = apply_op("GatherV2", params=counts.value(), indices=self._worker, axis=0)
        own = apply_op(
            "Select", condition=apply_op("Equal", x=own, y=away), t=convert_to_tensor(0, dtypes.int64), e=own
        )
        joined = apply_op("Maximum", x=own, y=slowest_other)
        alone = apply_op("Equal", x=slowest_other, y=away)
        begins_at = apply_op("Select", condition=alone, t=own, e=joined)
        graph = context.get_default_graph()
        self._look = told()
        self._join = group(put("ResourceScatterUpdate", apply_op("Reshape", tensor=begins_at, shape=[1])))
        with graph.control_dependencies([put("ResourceScatterAdd", one)]):
            self._advance = told()
        self._leave = group(put("ResourceScatterUpdate", apply_op("Reshape", tensor=away, shape=[1])))

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._coordinator = coord
        session.run(self._join)
        self._own, self._slowest = session.run(self._look)

    def before_run(self, run_context: Any) -> None:
        pause, waited = _FIRST_PAUSE_S, False
        while self._own - self._slowest > self._bound and not self._coordinator.should_stop():
            self._own, self._slowest = run_context.session.run(self._look)
            if self._own - self._slowest <= self._bound:
                break
            self.waits += not waited
            waited = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        # By itself, so that a step counts once what it has updated is there.
        self._own, self._slowest = run_context.session.run(self._advance)

    def end(self, session: Any) -> None:
        session.run(self._leave)
