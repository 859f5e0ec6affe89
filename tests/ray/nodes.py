"""A Ray cluster of several nodes on this machine, by the Python that has Ray: `nodes.py COUNT CPUS KIND`.

Says `ADDRESS DASHBOARD` once it is up; then takes a line at a time: `add`, `remove INDEX`, `end`, and answers each.
KIND may be `dashboard`. With `autoscaler` there is a head without processors, and Ray itself adds up to COUNT nodes
when somebody needs them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_IMPORT_WARNING="1")

import ray
from ray._private import services
from ray.cluster_utils import Cluster

STORE = 80 * 2**20
UNUSED = (
    *("cluster_synced_files", "rsync_exclude", "rsync_filter", "initialization_commands", "setup_commands"),
    *("head_setup_commands", "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"),
)
"""What a cluster's file has to have, and what is for nodes that one logs in to."""


def autoscaled(count: int, cpus: int, out: TextIO) -> None:
    """Run a head whose autoscaler starts nodes on this machine, until the end of what is read."""
    folder = Path(os.environ["RAY_TMPDIR"])
    address = f"{services.get_node_ip_address()}:{free_port('')}"
    kinds = {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "worker": {
            "resources": {"CPU": cpus, "object_store_memory": STORE},
            "node_config": {},
            "min_workers": 0,
            "max_workers": count,
        },
    }
    config = {
        "cluster_name": "autoscaled",
        "max_workers": count,
        "idle_timeout_minutes": 0.1,
        "upscaling_speed": 1.0,
        "provider": {
            "type": "fake_multinode",
            "gcs_address": address,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": kinds,
        **{key: {} for key in ("auth", "file_mounts")},
        **{key: [] for key in UNUSED},
        "file_mounts_sync_continuously": False,
    }
    file = folder / "autoscaler.json"
    file.write_text(json.dumps(config))
    head = subprocess.Popen(
        [
            *(Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus=0"),
            *(f"--autoscaling-config={file}", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false"),
            *(f"--object-store-memory={STORE}", f"--temp-dir={folder}/autoscaled"),
        ],
        env={**os.environ, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"},
    )
    ray.init(address=connected(address), logging_level="ERROR")
    print(address, "-", file=out)
    sys.stdin.read()
    ray.shutdown()
    head.terminate()
    head.wait()
    for pid in pids_with(f"{folder}/autoscaled"):  # the nodes that the autoscaler has started outlive it
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def connected(address: str) -> str:
    """Wait until somebody listens there."""
    host, _, port = address.rpartition(":")
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1.0):
            return address
        time.sleep(0.1)


def pids_with(word: str) -> list[int]:
    """Find processes that have it in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as free:
        return int(free.getsockname()[1])


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    count, cpus = int(sys.argv[1]), int(sys.argv[2])
    if sys.argv[3] == "autoscaler":
        autoscaled(count, cpus, out)
    else:
        given(count, cpus, out, has_dashboard=sys.argv[3] == "dashboard")


def given(count: int, cpus: int, out: TextIO, *, has_dashboard: bool) -> None:
    """Run as many nodes as are asked for, add and remove some, until the end of what is read."""
    numbers = itertools.count(2)

    def own() -> dict[str, object]:
        """Each node has an address of its own, none of which leaves this machine. Ray takes 127.0.0.1 for another.

        The port that its agent has by itself may be another Ray's: then it ends, and Ray takes no jobs.
        """
        address = f"127.0.0.{next(numbers)}"
        return {
            "num_cpus": cpus,
            "object_store_memory": STORE,
            "node_ip_address": address,
            "dashboard_agent_listen_port": free_port(address),
        }

    head = {**own(), "include_dashboard": has_dashboard, "dashboard_port": 0, "dashboard_host": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.head_node]
    nodes += [cluster.add_node(**own()) for _ in range(count - 1)]
    cluster.wait_for_nodes()
    print(cluster.address, cluster.webui_url or "-", file=out)
    for line in sys.stdin:
        do, _, index = line.strip().partition(" ")
        if do == "add":
            nodes.append(cluster.add_node(**own()))
            print(nodes[-1].node_id, file=out)
        elif do == "remove":
            cluster.remove_node(nodes[int(index)], allow_graceful=False)
            print("removed", file=out)
        elif do == "ids":
            print(*(node.node_id for node in nodes), file=out)
        else:
            break
    cluster.shutdown()


main()
