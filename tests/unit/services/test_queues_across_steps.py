"""Steps that wait for each other through queues."""

from __future__ import annotations

import threading

from dtfctl.protocol import config_pb2, graph_pb2
from dtfctl.runtime.client.targets import open_backend
from dtfctl.runtime.framework.errors import CancelledError, OpError
from tests.unit.services.graphs import GraphBuilder


def test_closing_with_cancel_wakes_a_waiting_enqueue() -> None:
    g = GraphBuilder()
    g.queue("q")
    g.graph.node[0].attr["capacity"].i = 1
    g.const("one", 1.0)
    g.enqueue("put", "q", "one")
    g.node("shut", "QueueCloseV2", ("q",), cancel_pending_enqueues=graph_pb2.AttrValue(b=True))
    backend = open_backend("", config_pb2.ConfigProto())
    backend.create(g.graph)
    backend.run({}, [], ["put"])
    raised: list[OpError] = []

    def put() -> None:
        try:
            backend.run({}, [], ["put"])
        except OpError as e:
            raised.append(e)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive(), "the queue is full"
    backend.run({}, [], ["shut"])
    thread.join(60.0)
    assert not thread.is_alive()
    assert isinstance(raised[0], CancelledError)
    backend.close()
