"""What programs get wrong: shapes, types and names. The kinds of errors are compared, or what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.fuzz.program import FLOATS, INTS, Program, Skip


def anything(p: Program) -> None:
    """A call with values that are not chosen to fit each other."""
    tf = p.tf
    every = (*FLOATS, *INTS, "bool")
    a, b = p.pick(every), p.pick(every)
    x, y = a.tensor, b.tensor
    n = p.rng.randint(-3, 3)
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: tf.add(x, y),
        "+": lambda: x + y,
        "multiply": lambda: tf.multiply(x, y),
        "/": lambda: x / y,
        "matmul": lambda: tf.matmul(x, y),
        "concat": lambda: tf.concat([x, y], n),
        "stack": lambda: tf.stack([x, y], n),
        "reduce_sum": lambda: tf.reduce_sum(x, n),
        # The same axis twice fails in TensorFlow's steps, unless its size is 1.
        "reduce_mean": lambda: tf.reduce_mean(x, [0, n] if n % max(a.rank, 1) else [n]),
        "reshape": lambda: tf.reshape(x, [2, n]),
        "expand_dims": lambda: tf.expand_dims(x, n),
        "squeeze": lambda: tf.squeeze(x, [n]),
        "transpose": lambda: tf.transpose(x, [1, 0]),
        "gather": lambda: tf.gather(x, y),
        "slice": lambda: tf.slice(x, [0, 0], [1, n]),
        "[]": lambda: x[n],
        "[][]": lambda: x[0, n],
        "[tensor]": lambda: x[y],
        "split": lambda: tf.split(x, n, 0),
        # Of a size that TensorFlow does not know, and says so, where it is known here.
        "unstack": lambda: tf.unstack(x, a.shape[n] if -a.rank <= n < a.rank else None, n),
        "tile": lambda: tf.tile(x, [2, n]),
        "where": lambda: tf.where(x, y, y),
        "cast": lambda: tf.cast(x, tf.string),
        "one_hot": lambda: tf.one_hot(x, 3),
        "softmax": lambda: tf.nn.softmax(x),
        "sqrt": lambda: tf.sqrt(x),
        "logical_and": lambda: tf.logical_and(x, y),
        "floordiv": lambda: x // y,
        "argmax": lambda: tf.argmax(x, n),
        "bias_add": lambda: tf.nn.bias_add(x, y),
        "tensordot": lambda: tf.tensordot(x, y, 1),
        "einsum": lambda: tf.einsum("ij,jk->ik", x, y),
        "broadcast_to": lambda: tf.broadcast_to(x, [2, 3]),
        "one + x": lambda: 1 + x,
        "x * 1.5": lambda: x * 1.5,
        "cumsum": lambda: tf.cumsum(x, n),
        "pad": lambda: tf.pad(x, [[1, 1], [0, n]]),
        "cond": lambda: tf.cond(x, lambda: y, lambda: y),
        "while": lambda: tf.while_loop(lambda i: i < 3, lambda i: y, [x])[0] if n > 4 else tf.no_op(),
        "cond of two kinds": lambda: tf.cond(tf.constant(True), lambda: x, lambda: y),
        "segment_sum": lambda: tf.segment_sum(x, y),
        "top_k": lambda: tf.nn.top_k(x, n)[0],
        "l2_normalize": lambda: tf.nn.l2_normalize(x, n),
        "cross entropy": lambda: tf.nn.softmax_cross_entropy_with_logits_v2(labels=x, logits=y),
        "sparse cross entropy": lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x, logits=y),
        "mse": lambda: tf.losses.mean_squared_error(x, y),
        "set_shape": lambda: _set_shape(tf, x, [2, n]),
        "diag": lambda: tf.matrix_diag_part(x),
        "inverse": lambda: tf.matrix_inverse(x),
        "boolean_mask": lambda: tf.boolean_mask(x, y),
        "range": lambda: tf.range(x, y),
        "fill": lambda: tf.fill(x, 1.0),
        "zeros": lambda: tf.zeros(x),
        "gather_nd": lambda: tf.gather_nd(x, y),
        "conv2d": lambda: tf.nn.conv2d(x, y, [1, 1, 1, 1], "SAME"),
        "dense": lambda: tf.layers.dense(
            x, 2, use_bias=False, kernel_initializer=tf.ones_initializer(), name=f"w{p.made}_{len(p.items)}"
        ),
    }
    name = p.some(*calls)
    if name == "cross entropy" and not b.rank:
        raise Skip
    p.attempt(f"{name} ({a.dtype}{list(a.shape)}, {b.dtype}{list(b.shape)}, {n})", calls[name])


def _set_shape(tf: Any, x: Any, shape: list[int]) -> Any:
    y = tf.identity(x)
    y.set_shape([None if n < 0 else n for n in shape])
    return y


def misused(p: Program) -> None:
    """What is no tensor's to do, and names that are taken."""
    tf = p.tf
    x = p.pick(FLOATS, 1).tensor
    calls: dict[str, Callable[[], Any]] = {
        "bool": lambda: [1 for _ in range(3) if x],
        "iterate": lambda: list(x),
        "len": lambda: len(x),
        "float": lambda: float(x),
        "in": lambda: x in [1.0, 2.0],
        "variable twice": lambda: [tf.get_variable(f"twice{len(p.items)}", [2]) for _ in range(2)],
        "no shape": lambda: tf.get_variable("shapeless"),
        "reuse of none": lambda: _reuse(tf),
        "constant of a word": lambda: tf.constant("a", tf.float32),
        "constant of ragged lists": lambda: tf.constant([[1, 2], [3]]),
        "constant of a shape": lambda: tf.constant([1, 2, 3], shape=[2, 2]),
        "convert to int": lambda: tf.convert_to_tensor(x, tf.int32),
        "name": lambda: tf.identity(x, name="a name!"),
        "no such tensor": lambda: tf.get_default_graph().get_tensor_by_name("nothing:0"),
        "no such name": lambda: tf.get_default_graph().get_tensor_by_name("nothing"),
        "scope": lambda: tf.name_scope("in valid").__enter__(),
        "item": lambda: _set(x),
        "gradients of a number": lambda: tf.gradients(1.0, x),
        "minimize of nothing": lambda: tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0), var_list=[]),
        "collection": lambda: tf.get_collection("nothing") + tf.get_collection(tf.GraphKeys.LOSSES)[:0],
        "None": lambda: tf.convert_to_tensor(None),
        "add None": lambda: x + None,
        "dtype": lambda: tf.placeholder("nothing"),
        "eval": lambda: x.eval(),
        "as_list": lambda: tf.TensorShape(None).as_list(),
        "case of none": lambda: tf.case([]),
        "add_n of none": lambda: tf.add_n([]),
        "concat of none": lambda: tf.concat([], 0),
        "stack of none": lambda: tf.stack([]),
        "initializer": lambda: tf.get_variable(f"i{len(p.items)}", [2], initializer=tf.constant([1.0, 2.0])),
    }
    name = p.some(*calls)
    p.attempt(name, lambda: [t for t in _flat(calls[name]()) if hasattr(t, "op")])


def _flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _reuse(tf: Any) -> Any:
    with tf.variable_scope("nowhere", reuse=True):
        return tf.get_variable("v", [1])


def _set(x: Any) -> None:
    x[0] = 1.0


MAKERS = [anything, anything, anything, anything, misused]
