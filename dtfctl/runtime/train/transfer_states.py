"""What other workers' codecs keep from step to step, in the chief's checkpoints.

It lives beside each worker, and no step sends it anywhere. When the chief saves, it has each worker put its own into
tables beside the variables, by its name; the checkpoint has these, and they are emptied again. After a restore each
worker takes out what is its own when it begins: so none is given a state older than the variables.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.session import BaseSession, Session
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.transfer_compression import STATES, TransferState

log = logging.getLogger(__name__)
# A worker that does not answer must not hold up a checkpoint for longer.
MOST_S = 60.0


def park(session: Any) -> list[tuple[str, list[TransferState]]]:
    """Have all other workers put their states into the tables; by whom that was done, to be told to `clear`.

    One that is away or does not answer is left out, and begins with nothing when it is restored.
    """
    states: list[TransferState] = session.graph.get_collection(STATES)
    if not states:
        return []
    if not isinstance(session, BaseSession):
        log.warning("what other workers' codecs keep is not in this checkpoint: save it with a tf.Session")
        return []
    done = []
    for worker in _other_workers(session, states[0].worker):
        try:
            found = _park_one(session, worker, states)
        except OpError as e:
            log.warning("what %s's codecs keep is not in this checkpoint: %s", worker, e.message)
            continue
        if found:
            done.append((worker, found))
    return done


def clear(session: BaseSession, parked: Sequence[tuple[str, list[TransferState]]]) -> None:
    """Take out of the tables what `park` has put there."""
    for worker, states in parked:

        def remove(worker: str = worker, states: list[TransferState] = states) -> list[Operation]:
            return [state.table().remove([worker]) for state in states]

        try:
            _run(session, remove)
        except OpError as e:
            log.warning("what %s's codecs keep stays beside the variables: %s", worker, e.message)


def _other_workers(session: BaseSession, own: str) -> list[str]:
    devices = [DeviceSpec.from_string(device.name) for device in session.list_devices()]
    tasks = {f"/job:{spec.job}/task:{spec.task}" for spec in devices if spec.job in ("worker", "chief")}
    return sorted(tasks - {own})


def _park_one(session: BaseSession, worker: str, states: Sequence[TransferState]) -> list[TransferState]:
    def look() -> list[Tensor]:
        return [apply_op("IsVariableInitialized", ref=state.reference(worker)) for state in states]

    found = [state for state, is_there in zip(states, _run(session, look), strict=True) if is_there]

    def insert() -> list[Operation]:
        made = []
        for state in found:
            values = apply_op("ExpandDims", input=state.reference(worker), dim=constant(0))
            made.append(state.table().insert(constant([worker], dtypes.string), values))
        return [group(*made)]

    if found:
        _run(session, insert)
    return found


def _run(session: BaseSession, build: Any) -> Any:
    """Run what is built into a graph of its own, which finds the variables and tables of others by their names."""
    with Graph().as_default() as graph, graph.name_scope(""):
        wanted = build()
        options = config_pb2.RunOptions(timeout_in_ms=int(MOST_S * 1000))
        with Session(session.sess_str, graph=graph) as other:
            return other.run(wanted, options=options)
