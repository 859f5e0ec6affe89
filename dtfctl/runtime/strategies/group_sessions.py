"""Sessions of workers that train together: they agree on how far training is, and go on from there.

Whoever has gone furthest gives the others what it has. So a worker that died and is back goes on from the memory of one
that lived; where none has anything, a checkpoint is restored by the first worker, or all begin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from dtfctl.protocol.config_pb2 import ConfigProto
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.ops.cond import cond
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variable_collections import global_variables
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.reduce_op import CommunicationOptions, ReduceOp
from dtfctl.runtime.train.checkpoint_management import latest_checkpoint
from dtfctl.runtime.train.training_util import get_or_create_global_step

log = logging.getLogger("dtfctl.train")


class GroupSessionCreator:
    """Makes a worker's sessions, the first and those after a worker was lost: all workers make theirs together.

    Attributes:
        watching: is entered with a session while it waits for the other workers.
    """

    def __init__(self, extended: Any, scaffold: Any, master: str, config: Any, checkpoint_dir: str | None) -> None:
        self.watching: Callable[[Session], AbstractContextManager[None]] = lambda session: nullcontext()
        self._extended, self._scaffold, self._checkpoint_dir = extended, scaffold, checkpoint_dir
        self._config = extended.update_config(config or ConfigProto())
        self._master = master or extended.cluster_resolver.master()
        with contexts.within(extended._container):
            get_or_create_global_step()
        self._agreement: _Agreement | None = None

    def create_session(self) -> Session:
        graph = context.get_default_graph()
        if self._agreement is None:
            with graph.device(self._extended.worker_devices[0]), graph.name_scope("agreement"):
                self._agreement = _Agreement(self._extended)
        self._scaffold.finalize()
        session = Session(self._master, graph=graph, config=self._config)
        try:
            with self.watching(session):
                self._begin(session, self._agreement)
        except BaseException:
            session.close()
            raise
        return session

    def _begin(self, session: Session, agreement: _Agreement) -> None:
        own = int(session.run(agreement.own_step))
        checkpoint = latest_checkpoint(self._checkpoint_dir) if self._checkpoint_dir else None
        if own < 0 and self._extended.index == 0 and checkpoint is not None:
            self._scaffold.saver.restore(session, checkpoint)
        rows = session.run(agreement.everyones_steps)
        furthest, who = max((int(step), -int(worker)) for step, worker in np.reshape(rows, [-1, 2]))
        if furthest < 0:
            session.run(self._scaffold.init_op, self._scaffold.init_feed_dict)
            if self._scaffold.init_fn is not None:
                self._scaffold.init_fn(session)
        else:
            log.info("Training goes on at step %d of worker %d", furthest, -who)
            session.run(agreement.give if -who == self._extended.index else agreement.take)
        session.run(self._scaffold.local_init_op, self._scaffold.local_init_feed_dict)
        session.run(agreement.met)


class _Agreement:
    """What workers compute together before they go on.

    Attributes:
        own_step: how far this worker is; -1 where a variable of it has no value.
        everyones_steps: that of each worker, with its number.
        give, take: of which one worker runs the first, and all others the second.
        met: brings all replicas together, so that whoever is lost from then on ends the steps of the others.
    """

    def __init__(self, extended: Any) -> None:
        variables, between = global_variables(), extended.between_workers
        ready = convert_to_tensor(True)
        for variable in variables:
            ready = apply_op("LogicalAnd", x=ready, y=variable._is_initialized())
        step = get_or_create_global_step()
        minus_one = convert_to_tensor(-1, dtypes.int64)
        self.own_step = cond(
            ready, lambda: apply_op("Cast", x=_first_of(step).read_value(), DstT=dtypes.int64), lambda: minus_one
        )
        number = convert_to_tensor(extended.index, dtypes.int64)
        row = apply_op("Reshape", tensor=apply_op("Pack", values=[self.own_step, number]), shape=[1, 2])
        (self.everyones_steps,) = between.gather([apply_op("Identity", input=row)])
        given: list[Operation] = []
        taken: list[Operation] = []
        for variable in variables:
            keys, first = between.next_keys(), _first_of(variable)
            value = first.read_value()
            given.append(between.send(value, keys).op)
            received = between.receive(value, keys)
            copies = getattr(variable, "values", (variable,))
            taken += [_operation(copy.assign(received, read_value=False)) for copy in copies]
        here = [convert_to_tensor(1, dtypes.int32) for _ in extended.worker_devices]
        self.met = group(*extended.group.all_reduce(here, ReduceOp.SUM, CommunicationOptions()))
        self.give, self.take = group(*given, name="give"), group(*taken, name="take")


def _operation(done: Any) -> Operation:
    return done if isinstance(done, Operation) else done.op


def _first_of(variable: Any) -> Any:
    return getattr(variable, "values", (variable,))[0]
