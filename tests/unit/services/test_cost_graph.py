"""GraphOptions.build_cost_model: every so many runs of a signature say what its nodes cost."""

from __future__ import annotations

import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import stats_pb2
from tests.support.clusters import in_process_cluster


def _costs(session: tf.Session, fetch: tf.Tensor) -> stats_pb2.CostGraphDef | None:
    metadata = tf.RunMetadata()
    assert session.run(fetch, run_metadata=metadata) == 36.0
    assert not metadata.HasField("step_stats")
    assert not metadata.partition_graphs
    return metadata.cost_graph if metadata.HasField("cost_graph") else None


@pytest.mark.parametrize("through_grpc", [False, True])
def test_nodes_of_all_tasks_are_in_it(through_grpc: bool) -> None:
    config = tf.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = through_grpc
    config.graph_options.build_cost_model = 3
    config.graph_options.build_cost_model_after = 1
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), in_process_cluster({"ps": 1, "worker": 1}) as cluster:
        with tf.device("/job:ps"):
            v = tf.get_variable("v", initializer=3.0)
        with tf.device("/job:worker"):
            total = tf.add(v, v, name="total")
            y = tf.multiply(total, total, name="y")
        with tf.Session(cluster.target("worker", 0), config=config) as session:
            session.run(v.initializer)
            found = [_costs(session, y) for _ in range(7)]
    assert [costs is not None for costs in found] == [False, False, False, True, False, False, True]
    costs = found[3]
    assert costs is not None
    assert [node.id for node in costs.node] == list(range(len(costs.node)))
    nodes = {node.name: node for node in costs.node}
    assert "/job:ps" in nodes["v"].device
    assert "/job:worker" in nodes["y"].device
    assert {costs.node[i.preceding_node].name for i in nodes["y"].input_info} == {"total"}
    assert len(nodes["y"].input_info) == 2
    output = nodes["y"].output_info[0]
    assert (output.size, output.dtype) == (4, tf.float32.as_datatype_enum)
    assert nodes["y"].compute_cost >= 0
    assert any(node.is_final for node in costs.node)
