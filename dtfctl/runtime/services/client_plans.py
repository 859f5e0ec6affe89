"""How a client is to run a signature: by starting all tasks' parts itself, or through its master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.executor.keys import ClientEnds
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import CONTROL_FLOW, SENDS
from dtfctl.runtime.rendezvous.routing import task_of_device
from dtfctl.runtime.rendezvous.transports.handshake import this_place
from dtfctl.runtime.steps.path import StepFacts, StepPath, choose_path

if TYPE_CHECKING:
    from dtfctl.runtime.services.master_session import MasterSession


def quiet_parts(parts: Mapping[str, NodeGraph], ends: Mapping[str, ClientEnds]) -> frozenset[str]:
    """Find the tasks of which nobody must be told that their part of a step has ended well.

    All that such a part does, it does for what it sends to parts that wait for it, and that tell of their own end. With
    control flow a part may end without waiting for all that is sent to it.
    """
    receivers = {task: _receivers(graph) for task, graph in parts.items() if not ends[task].fetches}
    if not any(receivers.values()) or any(node.op in CONTROL_FLOW for graph in parts.values() for node in graph):
        return frozenset()
    quiet: set[str] = set()
    heard: set[str] = set()
    for task, found in receivers.items():
        if found and task not in heard and not found & quiet:
            quiet.add(task)
            heard |= found
    return frozenset(quiet)


def _receivers(graph: NodeGraph) -> frozenset[str]:
    """Find whom a part sends what it does last; none if it also ends with something else."""
    out: set[str] = set()
    followed: set[Node] = set()
    for node in graph:
        followed.update(edge.node for edge in node.inputs)
        followed.update(node.control_inputs)
    for node in graph:
        if node not in followed:
            if node.op not in SENDS:
                return frozenset()
            out.add(task_of_device(node.text_attr("recv_device")))
    return frozenset(out)


def client_plan(
    session: MasterSession, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], graph_key: int
) -> worker_pb2.ClientPlan:
    """Plan what a client must know to run a signature.

    Raises:
        OpError: as `Signatures.get`.
    """
    master = session.local.task
    plan = worker_pb2.ClientPlan(master=master)
    # Places of tasks do not change during their lives, so this is the same for all signatures of a session.
    away = [task.task for task in session.remote if task.place != this_place()]
    if away:
        plan.reason = choose_path(StepFacts(elsewhere=away[0])).reason
        return plan
    compiled = session.signatures.get(feeds, fetches, targets, everywhere=True, graph_key=graph_key)
    choice = choose_path(StepFacts(others=list(compiled.remote)))
    plan.reason = choice.reason
    if choice.path is not StepPath.CLIENT:
        return plan
    handles = {task: part.handle for task, part in compiled.remote.items()}
    if compiled.local is not None:
        handles[master] = compiled.local.handle
    for task, ends in compiled.ends.items():
        plan.part.add(
            task=task,
            handle=handles[task],
            feed=[feeds.index(name) for name in ends.feeds],
            fetch=[fetches.index(name) for name in ends.fetches],
            quiet=task in compiled.parts.quiet,
        )
    types = compiled.feed_types
    plan.feed_type.extend(types[name].as_datatype_enum if name in types else 0 for name in feeds)
    return plan
