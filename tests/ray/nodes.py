"""A Ray cluster of several nodes on this machine, by the Python that has Ray: `nodes.py COUNT CPUS`.

Says `ADDRESS DASHBOARD` once it is up; then takes a line at a time: `add`, `remove INDEX`, `end`, and answers each.
"""

from __future__ import annotations

import itertools
import os
import sys

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_IMPORT_WARNING="1")

from ray.cluster_utils import Cluster

STORE = 80 * 2**20


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    count, cpus, has_dashboard = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "dashboard"
    numbers = itertools.count(2)

    def own() -> dict[str, object]:
        """Each node has an address of its own, none of which leaves this machine. Ray takes 127.0.0.1 for another."""
        address = f"127.0.0.{next(numbers)}"
        return {"num_cpus": cpus, "object_store_memory": STORE, "node_ip_address": address}

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
