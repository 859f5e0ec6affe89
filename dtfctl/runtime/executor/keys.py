"""Names under which tensors meet in a step's rendezvous."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import RECVS, SENDS

ROOT_FRAME = "0:0"


class _Dead:
    """The value on a dead edge."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = _Dead()


def is_client_terminated(node: Node) -> bool:
    return bool(node.attr("client_terminated", False))


def client_key(tensor_name: str) -> str:
    """Name what a client feeds or fetches in a rendezvous."""
    return f"client;{tensor_name}"


def key_prefix(node: Node) -> str:
    """Make the key of a send or receive up to its frame; the whole key when the client is at the other end."""
    name = node.text_attr("tensor_name")
    if is_client_terminated(node):
        return client_key(name)
    incarnation = int(node.attr("send_device_incarnation")) & 0xFFFFFFFFFFFFFFFF
    return f"{node.text_attr('send_device')};{incarnation:016x};{node.text_attr('recv_device')};{name};"


def rendezvous_key(node: Node, frame: str = ROOT_FRAME) -> str:
    """Make the whole key of a send or receive that runs in `frame` ("FRAME:ITERATION")."""
    prefix = key_prefix(node)
    return prefix if is_client_terminated(node) else prefix + frame


@dataclass(frozen=True)
class ClientEnds:
    """The feeds and fetches of a partition, by name of the tensor: which argument, and which result, of its plan.

    A plan takes what is fed as arguments and gives what is fetched as results, as it does with `_Arg` and `_Retval`.
    """

    feeds: dict[str, int] = field(default_factory=dict)
    fetches: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: NodeGraph) -> ClientEnds:
        ends = cls()
        for node in graph:
            if (node.op in RECVS or node.op in SENDS) and is_client_terminated(node):
                names = ends.feeds if node.op in RECVS else ends.fetches
                names.setdefault(node.text_attr("tensor_name"), len(names))
        return ends

    def argument(self, node: Node) -> int | None:
        """Find which argument the node gives, None when it gives none."""
        if node.op == "_Arg":
            return int(node.attr("index"))
        return self.feeds.get(node.text_attr("tensor_name")) if self._is_end(node, RECVS) else None

    def result(self, node: Node) -> int | None:
        """Find which result the node takes, None when it takes none."""
        if node.op == "_Retval":
            return int(node.attr("index"))
        return self.fetches.get(node.text_attr("tensor_name")) if self._is_end(node, SENDS) else None

    @staticmethod
    def _is_end(node: Node, ops: frozenset[str]) -> bool:
        return node.op in ops and is_client_terminated(node)
