"""Names under which tensors meet in a step's rendezvous."""

from __future__ import annotations

from dtfctl.runtime.framework.node_graph import Node

ROOT_FRAME = "0:0"
SENDS = frozenset(("_Send", "_HostSend", "Send"))
RECVS = frozenset(("_Recv", "_HostRecv", "Recv"))


def is_client_terminated(node: Node) -> bool:
    return bool(node.attr("client_terminated", False))


def key_prefix(node: Node) -> str:
    """The key of a send or receive up to its frame; the whole key when the client is at the other end."""
    name = node.text_attr("tensor_name")
    if is_client_terminated(node):
        return f"client;{name}"
    incarnation = int(node.attr("send_device_incarnation")) & 0xFFFFFFFFFFFFFFFF
    return f"{node.text_attr('send_device')};{incarnation:016x};{node.text_attr('recv_device')};{name};"


def rendezvous_key(node: Node, frame: str = ROOT_FRAME) -> str:
    """The whole key of a send or receive that runs in `frame` ("FRAME:ITERATION")."""
    prefix = key_prefix(node)
    return prefix if is_client_terminated(node) else prefix + frame
