"""PyTorch: what `torch.distributed.init_process_group()` and scripts written for torchrun read.

A group cannot lose a rank, so all processes start again together, each time with another port for rank 0's store: what
an earlier start left there can never be met.
"""

from __future__ import annotations

from dtfctl.launcher.controller.state.frameworks.base import Framework, Group, Member


def _ports(_name: str, chief: bool) -> int:
    return 1 if chief else 0


def _variables(group: Group, me: Member) -> dict[str, str]:
    address, _, port = group.members[0].addresses[0].rpartition(":")
    here = group.on_host(me.host)
    rank, world = group.members.index(me), len(group.members)
    return {
        "MASTER_ADDR": address.strip("[]"),
        "MASTER_PORT": port,
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(here.index(me)),
        "LOCAL_WORLD_SIZE": str(len(here)),
        "GROUP_RANK": str(group.hosts.index(me.host)),
        "GROUP_WORLD_SIZE": str(len(group.hosts)),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world),
        "TORCHELASTIC_RUN_ID": f"{group.job_id}-{group.generation}",
        "TORCHELASTIC_RESTART_COUNT": str(group.generation - 1),
        "TORCHELASTIC_MAX_RESTARTS": str(group.retries),
        # Rank 0 makes the store itself; no agent keeps one from start to start.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


FRAMEWORK = Framework("torch", has_ports=True, ports=_ports, restarts="all", gpus="host", variables=_variables)
