"""TensorFlow with its own servers: TF_CONFIG.

A job brings its own ps: one process beside each of the cluster's. A process that dies comes back at its old address, so
the others go on (asynchronous training with parameter servers).

The full form names every task. In the sparse form a worker knows only itself and the ps, so that workers come and go
without the others noticing; ps and chief know the same table as ever, which they need to serve.
"""

from __future__ import annotations

import json

from dtfctl.launcher.controller.state.frameworks.base import Framework, Group, Member

SERVED = ("chief", "ps", "worker")
"""The roles in the cluster's table; an evaluator stands beside it."""


def _ports(name: str, _chief: bool) -> int:
    return 1 if name.partition("/")[0] in SERVED else 0


def tf_config(group: Group, me: Member) -> dict[str, object]:
    """Make the content of TF_CONFIG."""
    task: dict[str, object] = {"type": me.role, "index": me.index}
    table: dict[str, list[str]] = {}
    for role in SERVED:
        found = sorted((m for m in group.members if m.role == role), key=lambda m: m.index)
        if found:
            table[role] = [member.addresses[0] for member in found]
    if group.options.get("tf_config") != "sparse" or me.role != "worker":
        return {"cluster": table, "task": task}
    sparse: dict[str, object] = {"worker": {str(me.index): me.addresses[0]}}
    if "ps" in table:
        sparse["ps"] = table["ps"]
    return {"sparseCluster": sparse, "task": task}


def _variables(group: Group, me: Member) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps(tf_config(group, me))}


FRAMEWORK = Framework(
    "tensorflow",
    brings_ps=True,
    has_ports=True,
    ports=_ports,
    gpus="own",
    success="chief",
    variables=_variables,
)
