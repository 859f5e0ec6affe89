"""A sum over tasks without a parameter server: each worker gets the sum of what all of them have."""

from __future__ import annotations

from typing import Any

from benchmarks.programs import Program, sample, session_config, tasks_of


def build(tf: Any, target: str, elements: int, workers: int = 2, hint: str = "auto", times: int = 1) -> Program:
    """Make a sum over workers.

    Args:
        times: so many, one of the other's result.
    """
    graph = tf.Graph()
    probes, sums = [], []
    with graph.as_default():
        for i in range(workers):
            with tf.device(f"/job:worker/task:{i}/device:CPU:0"):
                start = tf.linspace(1.0, 2.0, elements) if elements > 1 else tf.fill([1], 1.5)
                own = tf.Variable(start * (i + 1.0), name=f"own{i}_of_{elements}")
                total = tf.identity(own)
                for turn in range(times):
                    total = tf.raw_ops.CollectiveReduce(
                        input=total,
                        group_size=workers,
                        group_key=workers,
                        instance_key=elements + turn,
                        merge_op="Add",
                        final_op="Id",
                        subdiv_offsets=[0],
                        communication_hint=hint,
                    )
                probes.append(sample(tf, total, elements))
                sums.append(tf.reduce_mean(tf.cast(total, tf.float64)))
        init = tf.global_variables_initializer()
        session = tf.Session(target, graph=graph, config=session_config(tf, True, tasks_of(1, workers)))
    options = tf.RunOptions()
    # TensorFlow's masters agree on a step by it.
    options.experimental.collective_graph_key = workers * 1000 + elements % 1000
    session.run(init)

    def step() -> None:
        session.run(probes, options=options)

    def values() -> list[float]:
        means, first = session.run([sums, probes[0]], options=options)
        return [float(v) for v in (*means, *first)]

    return Program(step, values, session.close)
