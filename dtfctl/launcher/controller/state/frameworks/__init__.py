"""What the launcher knows about a framework to run its jobs: which processes, which variables, what follows a death.

>>> of("torch").restarts
'all'
"""

from __future__ import annotations

from dtfctl.launcher.controller.state.frameworks import jax, tensorflow, torch
from dtfctl.launcher.controller.state.frameworks.base import Framework, Group, Member
from dtfctl.launcher.model import Framework as Name

DTF = Framework("dtf", needs_tasks=True, sees_tasks=True, success="chief")
"""The tasks of the cluster are its servers; a process that dies reconnects to them."""
COMMAND = Framework("command", sees_tasks=True, gpus="own", interpreter=False)
"""Any program: every process for itself."""

_ALL: dict[str, Framework] = {
    framework.name: framework for framework in (DTF, COMMAND, tensorflow.FRAMEWORK, torch.FRAMEWORK, jax.FRAMEWORK)
}


def of(name: Name) -> Framework:
    return _ALL[name]


__all__ = ["COMMAND", "DTF", "Framework", "Group", "Member", "of"]
