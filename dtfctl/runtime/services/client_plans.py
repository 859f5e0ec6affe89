"""How a client is to run a signature: by starting all tasks' parts itself, or through its master."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.rendezvous.transports.handshake import this_place

if TYPE_CHECKING:
    from dtfctl.runtime.services.master_session import MasterSession


def why_through_master(session: MasterSession) -> str:
    """Why clients on the master's host cannot start the parts of a session's steps themselves; "" if they can.

    Asked once for a session: what its tasks' places are does not change during their lives.
    """
    for task in session.remote:
        if task.place != this_place():
            return f"{task.task} is not on the host of the session's master"
    return ""


def client_plan(
    session: MasterSession, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
) -> worker_pb2.ClientPlan:
    """What a client must know to run a signature.

    Raises:
        OpError: as `Signatures.get`.
    """
    master = session.local.task
    plan = worker_pb2.ClientPlan(master=master, reason=why_through_master(session))
    if plan.reason:
        return plan
    compiled = session.signatures.get(feeds, fetches, targets, everywhere=True)
    if not compiled.remote:
        plan.reason = "only the master's own task has a part in it"
        return plan
    handles = {task.task: handle for task, handle in compiled.remote}
    if compiled.local is not None:
        handles[master] = compiled.local.handle
    for task, ends in compiled.ends.items():
        plan.part.add(
            task=task,
            handle=handles[task],
            feed=[feeds.index(name) for name in ends.feeds],
            fetch=[fetches.index(name) for name in ends.fetches],
        )
    types = compiled.feed_types
    plan.feed_type.extend(types[name].as_datatype_enum if name in types else 0 for name in feeds)
    return plan
