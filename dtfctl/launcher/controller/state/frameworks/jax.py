"""JAX: what `jax.distributed.initialize()` reads. All processes start again together, with another coordinator port."""

from __future__ import annotations

from dtfctl.launcher.controller.state.frameworks.base import Framework, Group, Member


def _ports(_name: str, chief: bool) -> int:
    return 1 if chief else 0


def _variables(group: Group, me: Member) -> dict[str, str]:
    return {
        "JAX_COORDINATOR_ADDRESS": group.members[0].addresses[0],
        "JAX_NUM_PROCESSES": str(len(group.members)),
        "JAX_PROCESS_ID": str(group.members.index(me)),
    }


FRAMEWORK = Framework("jax", has_ports=True, ports=_ports, restarts="all", gpus="own", variables=_variables)
