"""Ops that are a graph's structure: compiler and executor carry them out themselves, by what exactly that op means.

Of all other ops what may be taken for granted stands with their kernels (kernels/promises.py).
"""

from __future__ import annotations

# Control flow of version 1: a dead value goes through all but a Merge; an Enter begins a frame, an Exit ends it. A
# Switch sends on to one of two, the one inside the runtime to one of any number.
SWITCHES = frozenset(("Switch", "RefSwitch"))
SWITCHES_OF_ANY = SWITCHES | {"_SwitchN"}
MERGES = frozenset(("Merge", "RefMerge"))
BRANCHES = SWITCHES_OF_ANY | MERGES
ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
NEXTS = frozenset(("NextIteration", "RefNextIteration"))
LOOP_OPS = ENTERS | EXITS | NEXTS | {"LoopCond"}
REF_LOOP_OPS = frozenset(("RefEnter", "RefExit", "RefNextIteration"))
CONTROL_FLOW = BRANCHES | LOOP_OPS

# Where values come in and go out: of functions, and between devices, tasks and client.
BOUNDARIES = frozenset(("_Arg", "_Retval"))
AHEAD_ATTR = "_fetched_ahead"
"""The attribute of an op that takes a transfer which only the next step needs: all else goes before it."""
URGENCY_ATTR = "_urgency"
"""The attribute of a collective that says how soon its result is needed, among those of its device; 0 for first."""
CONDITIONAL_ATTR = "_conditional"
"""The attribute of a collective that a conditional or a loop of version 1 may leave out."""
SENDS = frozenset(("_Send", "_HostSend", "Send"))
RECVS = frozenset(("_Recv", "_HostRecv", "Recv"))
# What has no value unless it is fed.
PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))

# What others only wait for.
NOTHING = frozenset(("NoOp", "ControlTrigger"))

# Control flow by functions.
CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
IFS = frozenset(("If", "StatelessIf"))
CASES = frozenset(("Case", "StatelessCase"))
WHILES = frozenset(("While", "StatelessWhile"))
WITH_BODIES = IFS | CASES | WHILES
FUNCTIONAL = CALLS | WITH_BODIES

# What stands for a variable in a graph.
VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp"))

# What the devices of a group compute together: begun by a node of this kind, waited for by a receive
# (compiler/collectives.py).
COLLECTIVE_START = "_CollectiveStart"
COLLECTIVES = frozenset(
    (
        "_CollectivePlace",
        "CollectiveReduce",
        "CollectiveReduceV2",
        "CollectiveReduceV3",
        "CollectiveReduceScatterV2",
        "CollectiveGather",
        "CollectiveGatherV2",
        "CollectiveBcastSend",
        "CollectiveBcastSendV2",
        "CollectiveBcastRecv",
        "CollectiveBcastRecvV2",
        "CollectiveAllToAllV2",
        "CollectiveAllToAllV3",
    )
)
