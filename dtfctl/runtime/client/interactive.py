"""A session for a shell or a notebook."""

from __future__ import annotations

import logging
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.default_session import default_sessions
from dtfctl.runtime.client.session import BaseSession
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_stack import enter_graph, leave_graph

log = logging.getLogger(__name__)


class InteractiveSession(BaseSession):
    """A session that is the default one from when it is made until it is closed."""

    _active = 0

    def __init__(
        self, target: Any = "", graph: Graph | None = None, config: config_pb2.ConfigProto | None = None
    ) -> None:
        mine = config_pb2.ConfigProto()
        if isinstance(config, config_pb2.ConfigProto):
            mine.CopyFrom(config)
        else:
            mine.gpu_options.allow_growth = True
        mine.graph_options.place_pruned_graph = True
        super().__init__(
            target, graph, mine if config is None or isinstance(config, config_pb2.ConfigProto) else config
        )
        if InteractiveSession._active:
            log.error(
                "An interactive session is already active. This can cause out-of-memory errors; close the other one, "
                "or use `tf.Session()`."
            )
        InteractiveSession._active += 1
        self._explicit_graph = graph
        default_sessions.stack.append(self)
        if graph is not None:
            enter_graph(graph)

    def close(self) -> None:
        """Close it; it is then no longer the default session."""
        was_open = not self._closed
        super().close()
        if not was_open:
            return
        InteractiveSession._active -= 1
        if self in default_sessions.stack:
            default_sessions.stack.remove(self)
        if self._explicit_graph is not None:
            leave_graph(self._explicit_graph)
