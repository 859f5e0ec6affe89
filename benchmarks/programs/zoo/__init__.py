"""The zoo: training steps of the kinds of models that TF1 programs are made of, written as such programs are.

Each module has several models. A model is a function of `tf` and its batch that builds its part of a graph and returns
a `Model`; `models.py` names them all. Sizes are those of examples and papers' small versions, so that a step takes
milliseconds, not seconds.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.programs import Program, session_config

# Steps after which losses are compared.
STEPS = 4
# What models are fed in turn, where these have the same shapes: no program trains with one batch.
_BATCHES = 8


@dataclass
class Model:
    """What a model's function has built.

    Attributes:
        loss: a number.
        train: the ops of a training step; several run one after the other.
        feeds: what each step is fed, or steps in turn have others of the same shapes and kinds for (`_of_the_kind`).
        others: what steps are fed besides, each in turn, where they are to have other shapes.
        forward: what a step without training fetches.
        begin: called with the session once the variables have their first values.
    """

    loss: Any
    train: Sequence[Any]
    feeds: Mapping[Any, Any] = field(default_factory=dict)
    others: Sequence[Mapping[Any, Any]] = ()
    forward: Any = None
    begin: Callable[[Any], None] | None = None


def program(
    tf: Any, target: str, make: Callable[[Any, int], Model], batch: int, trains: bool = True, places: Any = None
) -> Program:
    """Make a model a program.

    Args:
        make: of `models.py`.
        trains: False for steps that only fetch what the model gives.
        places: a device or device function for all of it; none by default.
    """
    graph = tf.Graph()
    with graph.as_default(), tf.device(places):
        tf.set_random_seed(7)
        model = make(tf, batch)
        init = tf.global_variables_initializer()
        variables = list(tf.trainable_variables())
        session = tf.Session(target, graph=graph, config=session_config(tf))
    feeds = dict(model.feeds)
    fed = [{**feeds, **others} for others in model.others] or [
        {key: _of_the_kind(value, n) for key, value in feeds.items()} for n in range(_BATCHES)
    ]
    turns = itertools.cycle(fed)

    def start() -> None:
        session.run(init)
        for variable in variables:
            shape = [int(n) for n in variable.shape]
            # What has one dimension, biases and scales, begins as its initializer says.
            if len(shape) > 1:
                variable.load(_values(variable.op.name, shape), session)
        if model.begin is not None:
            model.begin(session)

    start()
    fetched = [list(model.train)[-1:], *([train] for train in list(model.train)[:-1])][::-1]
    fetched[-1] = [*fetched[-1], model.loss]
    if not trains:
        fetched = [[model.forward if model.forward is not None else model.loss]]

    def step() -> None:
        given = next(turns)
        for fetches in fetched:
            session.run(fetches, given)

    def values() -> list[float]:
        start()
        losses = []
        for _ in range(STEPS):
            losses.append(float(session.run(model.loss, fed[0])))
            for train in model.train:
                session.run(train, fed[0])
        return losses + [float(session.run(model.loss, given)) for given in fed[1:STEPS]]

    return Program(step, values, session.close)


def _of_the_kind(value: Any, n: int) -> Any:
    """Make the `n`th batch like a given one, which is the first: of the same whole numbers, or of the same rows."""
    random = np.random.RandomState(n)
    if not n:
        return value
    if value.dtype.kind == "i":
        return random.choice(value.reshape(-1), value.shape)
    return value[random.permutation(len(value))]


def _values(name: str, shape: list[int]) -> Any:
    """Make a variable's first values, the same on both sides; of a size that keeps what goes through it of one size."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    inner = int(np.prod(shape[:-1])) if len(shape) != 2 or "table" not in name else 16
    return (random.randn(*shape) / np.sqrt(inner)).astype(np.float32)


def randomly(name: str, *shape: int) -> Any:
    """Make data, the same on both sides."""
    return np.random.RandomState(zlib.crc32(name.encode())).randn(*shape).astype(np.float32)


def numbers(name: str, most: int, *shape: int) -> Any:
    """Make whole numbers from 0 to `most` - 1, the same on both sides."""
    return np.random.RandomState(zlib.crc32(name.encode())).randint(0, most, shape).astype(np.int32)


def sizes(count: int, least: int, most: int) -> list[int]:
    """Make sizes in no order, the same on both sides."""
    return [int(n) for n in np.random.RandomState(7).randint(least, most + 1, count)]


def weights(tf: Any, name: str, *shape: int) -> Any:
    """Make a trainable variable; those of one dimension are zeros, or ones where their name says scale."""
    initial = np.ones if "scale" in name else np.zeros
    return tf.get_variable(name, initializer=initial(shape, np.float32))


def dense(tf: Any, x: Any, units: int, name: str, activation: Any = None) -> Any:
    """Make a dense layer of a matrix, as most programs write their own."""
    with tf.variable_scope(name):
        y = tf.matmul(x, weights(tf, "w", int(x.shape[-1]), units)) + weights(tf, "b", units)
    return y if activation is None else activation(y)
