"""Which tensor lists a loop may change in place: nothing but the op that changes them takes them."""

from __future__ import annotations

from collections import Counter

from dtfctl.runtime.compiler.functions import FunctionBody
from dtfctl.runtime.kernels.registry import op_promises


def unread(body: FunctionBody) -> frozenset[int]:
    """Find the arguments that nothing takes."""
    taken = {edge.node for node in body.graph for edge in node.inputs}
    return frozenset(i for i, arg in enumerate(body.args) if arg not in taken)


def changed(body: FunctionBody) -> frozenset[int]:
    """Find the lists among arguments of which the results of the same number are what one op makes by changing them.

    Nothing else takes the list before, and nothing else the one after.
    """
    takers = Counter((edge.node, edge.slot) for node in body.graph for edge in node.inputs)
    found = set()
    for i, (arg, result) in enumerate(zip(body.args, body.results)):
        if len(result.inputs) != 1:
            continue
        made = result.inputs[0]
        if made.slot == 0 and made.node.inputs and op_promises(made.node.op, "changes_list"):
            taken = made.node.inputs[0]
            if taken.node is arg and takers[taken.node, taken.slot] == 1 and takers[made.node, 0] == 1:
                found.add(i)
    return frozenset(found)
