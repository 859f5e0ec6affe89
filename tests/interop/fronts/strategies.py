"""Programs with strategies, run with TensorFlow and with the front end here: what they find is compared.

    PYTHON -m tests.interop.fronts.strategies FOLDER

runs all with TensorFlow, leaves what they found in FOLDER/found.json and a checkpoint in FOLDER/theirs, and restores
that in FOLDER/ours, where there is one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(5)
X = RNG.normal(size=(8, 6)).astype(np.float32)
Y = RNG.normal(size=(8, 2)).astype(np.float32)
W = RNG.normal(size=(6, 2)).astype(np.float32)
STEPS = 4
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "descent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(0.01),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.01, momentum=0.5),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
}
STRATEGIES: dict[str, Callable[[Any], Any]] = {
    "one device": lambda tf: tf.distribute.OneDeviceStrategy("/cpu:0"),
    "mirrored 1": lambda tf: tf.distribute.MirroredStrategy(["/cpu:0"]),
    "mirrored 2": lambda tf: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "mirrored 4": lambda tf: tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(4)]),
    "central": lambda tf: tf.distribute.experimental.CentralStorageStrategy(["/cpu:1", "/cpu:2"], "/cpu:0"),
}


def own_rows(tf: Any, strategy: Any) -> slice:
    part = len(X) // strategy.num_replicas_in_sync
    context = tf.distribute.get_replica_context()
    found = context.replica_id_in_sync_group
    if hasattr(found, "op"):
        # A constant there.
        found = int(tf.get_static_value(found))
    return slice(part * found, part * (found + 1))


def session_of(tf: Any) -> Any:
    session = tf.Session(config=tf.ConfigProto(device_count={"CPU": 4}))
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


def build(tf: Any, strategy: Any, optimizer: str) -> Any:
    """Make a step of training; the loss before it."""
    count = tf.train.get_or_create_global_step()
    apply = OPTIMIZERS[optimizer](tf)

    def step() -> Any:
        rows = own_rows(tf, strategy)
        with tf.variable_scope("layer"):
            w = tf.get_variable("w", initializer=tf.constant(W))
            b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum((tf.tanh(tf.matmul(tf.constant(X[rows]), w) + b) - Y[rows]) ** 2) / 8
        with tf.control_dependencies([apply.minimize(loss, global_step=count)]):
            return tf.identity(loss)

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step), axis=None)


def training(tf: Any, folder: Path | None = None) -> dict[str, Any]:
    """Train by each strategy with each optimizer; names and values of all variables."""
    found: dict[str, Any] = {}
    for name, make in STRATEGIES.items():
        for optimizer in OPTIMIZERS if name != "mirrored 1" else ["adam"]:
            strategy = make(tf)
            with tf.Graph().as_default(), strategy.scope():
                loss = build(tf, strategy, optimizer)
                with session_of(tf) as session:
                    losses = [float(session.run(loss)) for _ in range(STEPS)]
                    values = {v.name: np.asarray(session.run(v)).tolist() for v in tf.global_variables()}
                    if folder is not None and (name, optimizer) == ("mirrored 2", "adam"):
                        tf.train.Saver().save(session, str(folder / "model"))
            found[f"{name}, {optimizer}"] = {"losses": losses, "values": values}
    return found


def restored(tf: Any, folder: Path) -> dict[str, Any]:
    """Restore what the other has saved with two replicas, by each strategy; the values."""
    found = {}
    for name, make in STRATEGIES.items():
        strategy = make(tf)
        with tf.Graph().as_default(), strategy.scope():
            build(tf, strategy, "adam")
            saver = tf.train.Saver()
            with session_of(tf) as session:
                saver.restore(session, str(folder / "model"))
                found[name] = {v.name: np.asarray(session.run(v)).tolist() for v in tf.global_variables()}
    return found


def values(tf: Any) -> dict[str, Any]:
    """Assign to variables with copies, within replicas and across them."""
    found: dict[str, Any] = {}
    aggregations = tf.VariableAggregation
    for name in ("SUM", "MEAN", "ONLY_FIRST_REPLICA"):
        for on_read in (False, True):
            strategy = STRATEGIES["mirrored 2"](tf)
            kinds = tf.VariableSynchronization
            with tf.Graph().as_default(), strategy.scope():
                variable = tf.get_variable(
                    "v",
                    initializer=tf.constant([1.0, 2.0]),
                    aggregation=getattr(aggregations, name),
                    synchronization=kinds.ON_READ if on_read else kinds.AUTO,
                )

                def grow(variable: Any = variable, strategy: Any = strategy) -> Any:
                    rows = own_rows(tf, strategy)
                    return variable.assign_add(tf.constant([float(rows.stop), 1.0]), read_value=False)

                change = strategy.group(strategy.run(grow))
                assign = tf.group(variable.assign(tf.constant([6.0, 8.0])))
                whole = variable.read_value()
                with session_of(tf) as session:
                    key = f"{name}{' on read' if on_read else ''}"
                    states = []
                    for op in (None, change, change, assign, change):
                        if op is not None:
                            session.run(op)
                        copies = session.run(list(strategy.experimental_local_results(variable)))
                        states.append([*(c.tolist() for c in copies), session.run(whole).tolist()])
                found[key] = {
                    "states": states,
                    "names": [v.name for v in strategy.experimental_local_results(variable)],
                    "collections": [v.name for v in tf.trainable_variables() + tf.global_variables()],
                }
    return found


def communication(tf: Any) -> dict[str, Any]:
    """Reduce, merge and gather between replicas."""
    strategy = STRATEGIES["mirrored 2"](tf)
    sums, mean = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
    with tf.Graph().as_default(), strategy.scope():

        def body() -> Any:
            context = tf.distribute.get_replica_context()
            x = tf.constant(X[own_rows(tf, strategy)])
            total = context.all_reduce(sums, x)
            back = tf.gradients(total * total, x)[0]

            def merge(across: Any, value: Any) -> Any:
                return across.extended.reduce_to(mean, value, value)

            return total, context.all_reduce(mean, x), back, context.merge_call(merge, args=(x,)), x[:, 0]

        *parts, column = strategy.run(body)
        rows = strategy.run(lambda: tf.constant(X[own_rows(tf, strategy)][:, 0]))
        fetched = [strategy.experimental_local_results(p) for p in parts]
        reduced = [strategy.reduce(op, rows, axis=axis) for op in (sums, mean) for axis in (None, 0)]
        with session_of(tf) as session:
            return {
                "parts": [[np.asarray(v).tolist() for v in session.run(list(p))] for p in fetched],
                "reduced": [np.asarray(v).tolist() for v in session.run(reduced)],
                "column": [v.tolist() for v in session.run(list(strategy.experimental_local_results(column)))],
            }


def sparse(tf: Any) -> dict[str, Any]:
    """Train rows of a table."""
    found = {}
    ids = np.array([0, 1, 1, 2, 0, 3, 3, 3])
    for name, make in STRATEGIES.items():
        for optimizer in ("descent", "adagrad", "adam"):
            strategy = make(tf)
            with tf.Graph().as_default(), strategy.scope():
                table = tf.get_variable("table", initializer=tf.constant(X[:5]))

                def step(strategy: Any = strategy, table: Any = table, optimizer: str = optimizer) -> Any:
                    rows = tf.gather(table, tf.constant(ids[own_rows(tf, strategy)]))
                    return OPTIMIZERS[optimizer](tf).minimize(tf.reduce_sum(rows * rows), var_list=[table])

                update = strategy.group(strategy.run(step))
                with session_of(tf) as session:
                    for _ in range(2):
                        session.run(update)
                    found[f"{name}, {optimizer}"] = session.run(table).tolist()
    return found


def inputs(tf: Any) -> dict[str, Any]:
    """Cut batches into parts, until there is nothing left."""
    found: dict[str, Any] = {}
    for count, batch in ((8, 4), (10, 4), (6, 6)):
        strategy = STRATEGIES["mirrored 2"](tf)
        with tf.Graph().as_default(), strategy.scope():
            iterator = strategy.make_dataset_iterator(tf.data.Dataset.range(count).batch(batch, drop_remainder=True))
            element = strategy.experimental_local_results(iterator.get_next())
            told: list[Any] = []

            def one_each(context: Any, count: int = count, told: list[Any] = told) -> Any:
                told += [context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync]
                return tf.data.Dataset.range(count)

            other = strategy.make_input_fn_iterator(one_each)
            single = strategy.experimental_local_results(other.get_next())
            with session_of(tf) as session:
                session.run([iterator.initialize(), other.initialize()])
                batches = drained(tf, session, element)
                found[f"{count} by {batch}"] = [batches, drained(tf, session, single), told]
    return found


def drained(tf: Any, session: Any, element: Any) -> list[Any]:
    out = []
    while True:
        try:
            out.append([v.tolist() for v in session.run(list(element))])
        except tf.errors.OutOfRangeError:
            return out


def fitted(tf: Any) -> dict[str, Any]:
    """Fit Keras models in the scopes of strategies: histories, values of evaluate and predict, names and weights."""
    keras = tf.keras
    layers = keras.layers

    def of(*shape: int) -> Any:
        return tf.constant_initializer(np.random.default_rng(sum(shape)).normal(size=shape))

    def classes() -> Any:
        model = keras.Sequential(
            [
                layers.Dense(5, "tanh", input_shape=(6,), kernel_initializer=of(6, 5), kernel_regularizer="l2"),
                layers.BatchNormalization(momentum=0.5),
                layers.Dense(3, "softmax", kernel_initializer=of(5, 3)),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model, [X, np.arange(8) % 3], {}

    def two_outputs() -> Any:
        rows, tokens = layers.Input((6,)), layers.Input((3,), dtype="int32")
        found = layers.Flatten()(layers.Embedding(9, 2, embeddings_initializer=of(9, 2))(tokens))
        hidden = layers.Concatenate()([layers.Dense(4, kernel_initializer=of(6, 4))(rows), found])
        first = layers.Dense(2, name="first", kernel_initializer=of(10, 2))(hidden)
        second = layers.Dense(1, name="second", kernel_initializer=of(10, 1))(hidden)
        model = keras.Model([rows, tokens], [first, second])
        model.compile(
            keras.optimizers.SGD(0.05, momentum=0.5, nesterov=True),
            {"first": "mse", "second": "mae"},
            loss_weights={"first": 1.0, "second": 0.5},
            metrics={"first": ["mae"]},
        )
        return model, [[X, np.arange(24).reshape(8, 3) % 9], [Y, Y[:, :1]]], {}

    def weighed() -> Any:
        model = keras.Sequential([layers.Dense(2, input_shape=(6,), kernel_initializer=of(6, 2))])
        model.compile(keras.optimizers.RMSprop(0.01), "mse")
        return model, [X, Y], {"sample_weight": np.linspace(0.1, 2.0, 8)}

    def of_older_optimizer() -> Any:
        model = keras.Sequential([layers.Dense(2, input_shape=(6,), kernel_initializer=of(6, 2))])
        model.compile(tf.train.AdagradOptimizer(0.1), keras.losses.MeanSquaredError(), metrics=["mse"])
        return model, [X, Y], {}

    out: dict[str, Any] = {}
    for name in ("one device", "mirrored 1", "mirrored 2", "mirrored 4"):
        for make in (classes, two_outputs, weighed, of_older_optimizer):
            keras.backend.clear_session()
            keras.backend.set_session(tf.Session(config=tf.ConfigProto(device_count={"CPU": 4})))
            with STRATEGIES[name](tf).scope():
                model, (x, y), more = make()
            history = model.fit(x, y, batch_size=4, epochs=3, verbose=0, shuffle=False, **more)
            predicted = model.predict(x, batch_size=4)
            out[f"{name}, {make.__name__}"] = {
                "history": {key: [float(v) for v in values] for key, values in history.history.items()},
                "evaluated": np.ravel(model.evaluate(x, y, batch_size=8, verbose=0, **more)).tolist(),
                "predicted": [p.tolist() for p in (predicted if isinstance(predicted, list) else [predicted])],
                "weights": {w.name: v.tolist() for w, v in zip(model.weights, model.get_weights())},
            }
    keras.backend.clear_session()
    return out


PROGRAMS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "training": training,
    "values": values,
    "communication": communication,
    "sparse": sparse,
    "inputs": inputs,
    "fitted": fitted,
}


def main(folder: Path) -> None:
    # Keras as it was with TensorFlow 1.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    found: dict[str, Any] = {name: run(tf) for name, run in PROGRAMS.items() if name != "training"}
    found["training"] = training(tf, folder / "theirs")
    if (folder / "ours").exists():
        found["restored"] = restored(tf, folder / "ours")
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
