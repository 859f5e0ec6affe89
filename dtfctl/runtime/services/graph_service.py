"""dtf.GraphService: tell the graphs of a master's sessions, and the steps that were asked for."""

from __future__ import annotations

from dtfctl.protocol import graphs_pb2
from dtfctl.runtime.framework.errors import ResourceExhaustedError, UnauthenticatedError
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.grpc_tools import service, unary
from dtfctl.runtime.services.master import Master

NAME = "dtf.GraphService"
MOST_BYTES = 1 << 28
"""Constants may be long; more than this is not for looking at."""


class GraphService:
    """The handler.

    Args:
        task: this one's full name.
        needs_certificate: refuse who has no certificate of the cluster.
    """

    def __init__(self, task: str, master: Master, needs_certificate: bool) -> None:
        self._task = task
        self._master = master
        self._needs_certificate = needs_certificate

    def handlers(self) -> dict[str, Handler]:
        return service(NAME, {"Get": unary(graphs_pb2.GraphQuestion, self.get)})

    def get(self, request: graphs_pb2.GraphQuestion, call: Call) -> graphs_pb2.GraphsAnswer:
        """Give the graph of each session.

        Raises:
            UnauthenticatedError. ResourceExhaustedError: they are longer than `MOST_BYTES`.
        """
        if self._needs_certificate and not call.auth_context().get("x509_common_name"):
            raise UnauthenticatedError("A graph is given to holders of a certificate of the cluster only")
        answer = graphs_pb2.GraphsAnswer()
        for session in self._master.sessions(request.job):
            told = answer.session.add(handle=session.handle, job=session.scope.name, master=self._task)
            session.describe_graph(told)
            if answer.ByteSize() > MOST_BYTES:
                raise ResourceExhaustedError(
                    f"The graphs of {self._task} are longer than {MOST_BYTES >> 20} MiB: have the program write its "
                    "own with tf.train.write_graph, and show that file"
                )
        return answer
