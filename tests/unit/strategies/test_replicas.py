"""What functions that are called for each replica may do, and what becomes of what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.strategies.test_mirrored import CPUS, mirrored

SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def here() -> Any:
    return tf.distribute.get_replica_context()


def run(fetches: Any) -> Any:
    with tf.Session(config=CPUS) as session:
        if tf.global_variables() or tf.local_variables():
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(fetches)


def test_contexts_say_where_one_is() -> None:
    strategy = mirrored(2)
    assert not tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
    assert here().replica_id_in_sync_group == 0 and tf.distribute.get_strategy().num_replicas_in_sync == 1
    with tf.Graph().as_default(), strategy.scope():
        assert tf.distribute.get_strategy() is strategy and tf.distribute.in_cross_replica_context()
        assert here() is None
        seen: list[Any] = []

        def body() -> int:
            assert not tf.distribute.in_cross_replica_context() and tf.distribute.get_strategy() is strategy
            seen.append((here().replica_id_in_sync_group, here().devices, tf.constant(1).device))
            return int(here().replica_id_in_sync_group)

        values = strategy.run(body)
        assert strategy.experimental_local_results(values) == (0, 1)
        assert [(i, device) for i, _, device in seen] == [
            (0, "/replica:0/task:0/device:CPU:0"),
            (1, "/replica:0/task:0/device:CPU:1"),
        ]
        with pytest.raises(RuntimeError, match="Mixing different"), mirrored(1).scope():
            pass
    assert not tf.distribute.has_strategy()


def test_what_all_replicas_give_keeps_its_structure() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        same = tf.constant(7)
        out = strategy.run(lambda x: {"own": (x, 3), "same": same}, args=(strategy.run(lambda: tf.constant(1)),))
        assert out["same"] is same and out["own"][1] == 3
        assert run(list(out["own"][0].values)) == [1, 1]
        with pytest.raises(AssertionError, match="different lengths"):
            strategy.run(lambda: list(range(here().replica_id_in_sync_group)))


def test_merges_meet_and_errors_end_all() -> None:
    strategy = mirrored(3)
    with tf.Graph().as_default(), strategy.scope():

        def merge(across: Any, value: Any) -> Any:
            assert across is strategy and tf.distribute.in_cross_replica_context()
            return across.extended.reduce_to(SUM, value, across.extended.worker_devices)

        def body() -> Any:
            with tf.name_scope("deep"):
                total = here().merge_call(merge, args=(tf.constant(here().replica_id_in_sync_group + 1.0),))
            return total * 2

        out = strategy.run(body)
        assert run(list(out.values)) == [12.0, 12.0, 12.0]
        assert out.values[1].device.endswith("CPU:1") and out.values[1].name.startswith("replica_1/")

        def uneven() -> None:
            if here().replica_id_in_sync_group != 1:
                here().merge_call(lambda _: None)

        with pytest.raises(RuntimeError, match="different number of replica_context"):
            strategy.run(uneven)

        def failing() -> None:
            here().merge_call(lambda _: None)
            if here().replica_id_in_sync_group == 2:
                raise LookupError("third")

        with pytest.raises(LookupError, match="third"):
            strategy.run(failing)
        with pytest.raises(ZeroDivisionError):
            strategy.run(lambda: here().merge_call(lambda _: 1 // 0))


def test_a_merge_within_a_branch_is_refused() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

        def body() -> Any:
            return tf.cond(tf.constant(True), lambda: total.assign_add(1.0).value(), lambda: tf.constant(1.0))

        with pytest.raises(RuntimeError, match="belong outside"):
            strategy.run(body)


def test_all_reduce_and_its_gradient() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():

        def body() -> Any:
            x = tf.constant([1.0, 2.0]) * (here().replica_id_in_sync_group + 1)
            total, mean = here().all_reduce(SUM, [x, x])[0], here().all_reduce(MEAN, x)
            back = tf.gradients(total * tf.constant([1.0, 10.0]), x)[0]
            return total, mean, back, here().all_gather(x, axis=0)

        totals, means, backs, gathered = strategy.run(body)
        for i in range(2):
            total, mean, back, rows = run([v.values[i] for v in (totals, means, backs, gathered)])
            np.testing.assert_array_equal(total, [3, 6])
            np.testing.assert_array_equal(mean, [1.5, 3])
            np.testing.assert_array_equal(back, [2, 20])
            np.testing.assert_array_equal(rows, [1, 2, 2, 4])


def test_reductions_along_an_axis_take_replicas_of_different_lengths() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        rows = strategy.run(lambda: tf.constant([1.0, 2.0, 6.0][here().replica_id_in_sync_group :]))
        assert run(strategy.reduce(SUM, rows, axis=0)) == 17.0
        assert run(strategy.reduce(MEAN, rows, axis=0)) == pytest.approx(17 / 5)
        numbers = strategy.run(lambda: tf.constant(here().replica_id_in_sync_group))
        assert run(strategy.reduce(SUM, numbers)) == 1
        assert run(strategy.gather(rows, axis=0)).tolist() == [1, 2, 6, 2, 6]


@pytest.mark.parametrize(("aggregation", "after"), [("SUM", 3.0), ("MEAN", 1.5), ("ONLY_FIRST_REPLICA", 1.0)])
def test_a_mirrored_variable_is_assigned_as_its_aggregation_says(aggregation: str, after: float) -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        variable = tf.Variable(10.0, aggregation=tf.VariableAggregation[aggregation])
        assert [v.name for v in variable.values] == ["Variable:0", "Variable/replica_1:0"]
        assert tf.global_variables() == [variable] == tf.trainable_variables()

        def body() -> Any:
            value = tf.constant(here().replica_id_in_sync_group + 1.0)
            return variable.assign_add(value)

        changed = strategy.run(body)
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(strategy.group(changed)) is None
            assert session.run(list(variable.values)) == [10 + after] * 2
            assert session.run(variable.assign(3.0)) == 3
            assert session.run(list(variable.values)) == [3, 3]
            session.run(variable.assign_sub(1.0, read_value=False))
            assert session.run(list(variable.values)) == [2, 2]
            variable.load(7.0, session)
            assert session.run(list(variable.values)) == [7, 7]


def test_without_an_aggregation_replicas_may_not_assign() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        variable = tf.Variable(0.0)
        with pytest.raises(ValueError, match="You must specify an aggregation method"):
            strategy.run(lambda: variable.assign_add(1.0))
        with pytest.raises(ValueError, match="handle is not available outside the replica context"):
            _ = variable.handle
        with pytest.raises(NotImplementedError, match="changes one copy"):
            strategy.run(lambda: tf.scatter_add(variable, [0], [1.0]))
        with pytest.raises(ValueError, match="`NONE` variable synchronization"):
            tf.Variable(0.0, synchronization=tf.VariableSynchronization.NONE)
        with pytest.raises(ValueError, match="aggregation=MEAN and a non-floating"):
            tf.Variable(0, aggregation=tf.VariableAggregation.MEAN)


def test_what_is_synchronized_on_read_is_read_as_a_whole() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        total = tf.get_variable(
            "total",
            [],
            initializer=tf.zeros_initializer(),
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
        assert not tf.trainable_variables()
        count = strategy.run(lambda: total.assign_add(here().replica_id_in_sync_group + 1.0, read_value=False))
        with tf.Session(config=CPUS) as session:
            session.run(tf.global_variables_initializer())
            session.run(strategy.group(count))
            assert session.run(list(total.values)) == [1, 2] and session.run(total) == 3
            session.run(total.assign(8.0))
            assert session.run(list(total.values)) == [4, 4]
        with pytest.raises(ValueError, match="does not support `assign_add` in cross-replica"):
            total.assign_add(1.0)


def test_replicas_share_the_variables_that_they_make() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():

        def body() -> Any:
            with tf.variable_scope("deep"):
                named = tf.get_variable("named", [2])
            return named, tf.Variable(1.0), tf.layers.dense(tf.ones([1, 2]), 3)

        for _ in range(2):
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                named, plain, _ = strategy.run(body)
        assert named is tf.global_variables()[0] and plain in tf.global_variables()
        names = ["deep/named", "Variable", "dense/kernel", "dense/bias", "Variable_1"]
        assert [v.op.name for v in tf.global_variables()] == names

        def mismatched() -> Any:
            return tf.Variable(1.0, name=f"of{'ab'[here().replica_id_in_sync_group]}")

        with pytest.raises(RuntimeError, match="mismatching name on device 1"):
            strategy.run(mismatched)


def test_creators_are_asked_for_variables() -> None:
    def doubled(next_creator: Any, **arguments: Any) -> Any:
        return next_creator(**{**arguments, "name": f"{arguments['name']}_made"})

    with tf.Graph().as_default():
        with tf.variable_creator_scope(doubled), tf.variable_creator_scope(lambda make, **kw: make(**kw)):
            assert tf.Variable(1.0, name="v").op.name == "v_made"
            assert tf.get_variable("w", [2]).op.name == "w_made"
        assert tf.Variable(1.0, name="v").op.name == "v"


def test_partitioners_are_left_out_with_a_warning() -> None:
    with tf.Graph().as_default(), mirrored(2).scope(), pytest.warns(UserWarning, match="Partitioned variables"):
        variable = tf.get_variable("v", [4], partitioner=tf.fixed_size_partitioner(2))
        assert len(variable.values) == 2


def test_inputs_are_cut_into_parts() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():
        dataset = tf.data.Dataset.range(10).batch(4, drop_remainder=True)
        iterator = strategy.make_dataset_iterator(dataset)
        value = iterator.get_next()
        assert value.values[0].shape.as_list() == [2]
        distributed = strategy.experimental_distribute_dataset(dataset).make_one_shot_iterator().get_next()
        doubled = strategy.experimental_run(lambda x: x * 2, strategy.make_dataset_iterator(dataset))
        with tf.Session(config=CPUS) as session:
            for _ in range(2):
                session.run(iterator.initializer)
                assert [v.tolist() for v in session.run(list(value.values))] == [[0, 1], [2, 3]]
                assert [v.tolist() for v in session.run(list(value.values))] == [[4, 5], [6, 7]]
                with pytest.raises(tf.errors.OutOfRangeError):
                    session.run(list(value.values))
            assert [v.tolist() for v in session.run(list(distributed.values))] == [[0, 1], [2, 3]]
        assert len(doubled.values) == 2


def test_an_input_function_is_told_of_the_replicas() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default(), strategy.scope():

        def inputs(context: Any) -> Any:
            assert (context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync) == (1, 0, 2)
            assert context.get_per_replica_batch_size(6) == 3
            with pytest.raises(ValueError, match="not divisible"):
                context.get_per_replica_batch_size(5)
            return tf.data.Dataset.range(4)

        iterator = strategy.make_input_fn_iterator(inputs)
        value = iterator.get_next()
        with tf.Session(config=CPUS) as session:
            session.run(iterator.initializer)
            assert session.run(list(value.values)) == [0, 1]
            assert session.run(list(value.values)) == [2, 3]
    with tf.Graph().as_default():
        ids = strategy.experimental_distribute_values_from_function(lambda c: c.replica_id_in_sync_group)
        assert ids.values == (0, 1)


def test_a_strategy_is_set_for_the_whole_program() -> None:
    strategy = mirrored(2)
    with tf.Graph().as_default():
        tf.distribute.experimental_set_strategy(strategy)
        try:
            assert tf.distribute.get_strategy() is strategy
            assert len(tf.Variable(1.0).values) == 2
        finally:
            tf.distribute.experimental_set_strategy(None)
        assert not tf.distribute.has_strategy() and not hasattr(tf.Variable(1.0), "values")


def test_the_first_replica_alone_summarizes() -> None:
    with tf.Graph().as_default(), mirrored(2).scope():
        tf.distribute.get_strategy().run(lambda: tf.summary.scalar("loss", tf.constant(1.0)))
        assert [s.op.name for s in tf.get_collection(tf.GraphKeys.SUMMARIES)] == ["loss"]


def test_devices_are_checked() -> None:
    with pytest.raises(ValueError, match="No duplicates allowed"):
        tf.distribute.MirroredStrategy(["/cpu:0", "/device:CPU:0"])
    with pytest.raises(ValueError, match="at least one device"):
        tf.distribute.MirroredStrategy([])
    assert tf.distribute.MirroredStrategy().extended.worker_devices == ("/replica:0/task:0/device:CPU:0",)
