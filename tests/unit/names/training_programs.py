"""Programs over what TF1 scripts use to build and train models: templates, own gradients, decays, parsing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], list[Any]]


def _run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(fetches, feeds)


def _template(tf: Any) -> list[Any]:
    def dense(x: Any, units: int) -> Any:
        w = tf.get_variable("w", [2, units], initializer=tf.ones_initializer())
        return tf.matmul(x, w)

    shared = tf.make_template("dense", dense, units=3)
    other = tf.make_template("dense", dense, units=1)
    early = tf.make_template("early", dense, create_scope_now_=True, units=2)
    x = tf.constant([[1.0, 2.0]])
    with tf.name_scope("somewhere"):
        outs = [shared(x), shared(x * 2.0), other(x), early(x)]
    names = [v.name for v in tf.global_variables()]
    scoped = [v.name for v in [*shared.variables, *other.trainable_variables, *early.global_variables]]
    return [*_run(tf, outs), names, scoped, [o.name for o in outs], shared.variable_scope.name]


def _custom_gradient(tf: Any) -> list[Any]:
    @tf.custom_gradient
    def log1pexp(x: Any) -> Any:
        e = tf.exp(x)

        def grad(dy: Any) -> Any:
            return dy * (1 - 1 / (1 + e))

        return tf.math.log(1 + e), grad

    @tf.custom_gradient
    def two(x: Any, y: Any) -> Any:
        return (x * y, x + y), lambda a, b: (a * 10.0, b * 100.0)

    x = tf.constant([1.0, 100.0])
    y = log1pexp(x)
    p, q = two(x, x * 3.0)
    return _run(tf, [y, *tf.gradients(y, x), *tf.gradients([p, q], x), *tf.gradients(q, x)])


def _custom_gradient_with_variables(tf: Any) -> list[Any]:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        w = tf.get_variable("w", initializer=3.0, use_resource=True)

        def grad(dy: Any, variables: Any = None) -> Any:
            assert [v.op.name for v in variables] == ["w"]
            return dy * 7.0, [tf.reduce_sum(dy) * 11.0]

        return x * w, grad

    x = tf.constant([1.0, 2.0])
    y = scaled(x)
    (w,) = tf.trainable_variables()
    return _run(tf, [y, *tf.gradients(y, [x, w])])


def _pass_through(tf: Any) -> list[Any]:
    x = tf.constant([1.4, 2.6])
    y = tf.grad_pass_through(tf.round)(x)
    return _run(tf, [y, *tf.gradients(y * 2.0, x)])


def _recompute(tf: Any) -> list[Any]:
    def block(x: Any) -> Any:
        with tf.variable_scope("block", use_resource=True, reuse=tf.AUTO_REUSE):
            w = tf.get_variable("w", initializer=[2.0, 3.0])
        return tf.tanh(x * w)

    x = tf.constant([0.1, 0.2])
    y = tf.recompute_grad(block)(x)
    return _run(tf, [y, *tf.gradients(y, [x, *tf.trainable_variables()])])


def _hessians(tf: Any) -> list[Any]:
    x = tf.constant([1.0, 2.0, 3.0])
    m = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    y = tf.reduce_prod(x) + tf.reduce_sum(tf.matmul(m, m)) * x[0]
    return _run(tf, [*tf.hessians(y, [x, m])])


def _decays(tf: Any) -> list[Any]:
    found = []
    for t_mul in (1.0, 2.0):
        step = tf.placeholder(tf.int64, [])
        rate = tf.train.cosine_decay_restarts(0.1, step, 10, t_mul=t_mul, m_mul=0.5, alpha=0.1)
        found += [_run(tf, rate, {step: s}) for s in (0, 3, 9, 11, 25, 31, 64)]
    return found


def _sequence_example(tf: Any) -> list[Any]:
    def ints(*v: int) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=v))

    example = tf.train.SequenceExample(
        context=tf.train.Features(feature={"length": ints(2), "ids": ints(4, 5, 6)}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                "pair": tf.train.FeatureList(feature=[ints(1, 2), ints(3, 4), ints(5, 6)]),
                "many": tf.train.FeatureList(feature=[ints(1), ints(), ints(2, 3)]),
            }
        ),
    )
    context, lists = tf.parse_single_sequence_example(
        example.SerializeToString(),
        {
            "length": tf.FixedLenFeature([], tf.int64),
            "ids": tf.VarLenFeature(tf.int64),
            "absent": tf.FixedLenFeature([2], tf.float32, [1.0, 2.0]),
        },
        {
            "pair": tf.FixedLenSequenceFeature([2], tf.int64),
            "many": tf.VarLenFeature(tf.int64),
            "none": tf.FixedLenSequenceFeature([3], tf.float32, allow_missing=True),
        },
    )
    sparse = [lists["many"].indices, lists["many"].values, lists["many"].dense_shape, context["ids"].values]
    dense = [context["length"], context["absent"], lists["pair"], lists["none"]]
    return [*_run(tf, sparse + dense), str(lists["pair"].shape.as_list())]


def _adagrad_da(tf: Any) -> list[Any]:
    found = []
    for resource in (False, True):
        v = tf.get_variable(f"v{resource}", initializer=[1.0, -2.0, 3.0], use_resource=resource)
        table = tf.get_variable(f"t{resource}", initializer=np.ones((3, 2), np.float32), use_resource=resource)
        step = tf.get_variable(f"s{resource}", initializer=np.int64(0), trainable=False)
        loss = tf.reduce_sum(v * v) + tf.reduce_sum(tf.gather(table, [2, 0]) * 3.0)
        optimizer = tf.train.AdagradDAOptimizer(
            0.5, step, l1_regularization_strength=0.01, l2_regularization_strength=0.02
        )
        train = optimizer.minimize(loss, step, [v, table])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            found += session.run([v, table, step])
    return found


def _batches(tf: Any) -> list[Any]:
    source = tf.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()
    odd = tf.train.maybe_batch([source, source * 10], tf.equal(source % 2, 1), 3)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found = session.run(odd)
        coordinator.request_stop()
        coordinator.join(threads)
    return found


def _many_at_once(tf: Any) -> list[Any]:
    rows = tf.constant([[1, 2], [3, 4], [5, 6]])
    some = tf.train.maybe_batch([rows], [True, False, True], 4, enqueue_many=True)
    none = tf.train.maybe_batch([rows], tf.constant(True), 3, enqueue_many=True)
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found = [session.run(some), session.run(none)]
        coordinator.request_stop()
        coordinator.join(threads)
    return found


PROGRAMS: dict[str, Program] = {
    "template": _template,
    "custom_gradient": _custom_gradient,
    "custom_gradient_with_variables": _custom_gradient_with_variables,
    "pass_through": _pass_through,
    "recompute": _recompute,
    "hessians": _hessians,
    "decays": _decays,
    "sequence_example": _sequence_example,
    "adagrad_da": _adagrad_da,
    "maybe_batch": _batches,
    "maybe_batch_many": _many_at_once,
}
