"""What the nodes of a step cost, from its partition graphs and what was seen of it (GraphOptions.build_cost_model)."""

from __future__ import annotations

from collections.abc import Iterable

from dtfctl.protocol import graph_pb2, stats_pb2
from dtfctl.runtime.framework.node_graph import CONTROL, parse_input
from dtfctl.runtime.framework.structural_ops import SENDS


def cost_graph(graphs: Iterable[graph_pb2.GraphDef], stats: stats_pb2.StepStats) -> stats_pb2.CostGraphDef:
    """Make a node for each of the partitions', with the time and the outputs seen of it, if it ran."""
    seen = {node.node_name: node for device in stats.dev_stats for node in device.node_stats}
    costs = stats_pb2.CostGraphDef()
    for graph in graphs:
        first = len(costs.node)
        ids = {node.name: first + i for i, node in enumerate(graph.node)}
        for node in graph.node:
            cost = costs.node.add(name=node.name, device=node.device, id=ids[node.name])
            for text in node.input:
                name, slot = parse_input(text)
                if slot == CONTROL:
                    cost.control_input.append(ids[name])
                else:
                    cost.input_info.add(preceding_node=ids[name], preceding_port=slot)
            cost.is_final = node.op in SENDS or node.op == "_Retval"
            ran = seen.get(node.name)
            if ran is None:
                cost.inaccurate = True
                continue
            cost.compute_cost = cost.compute_time = ran.op_end_rel_micros - ran.op_start_rel_micros
            for output in ran.output:
                described = output.tensor_description
                cost.output_info.add(
                    size=described.allocation_description.requested_bytes,
                    alias_input_port=-1,
                    shape=described.shape,
                    dtype=described.dtype,
                )
    return costs
