"""Build and run programs made at random, and write down what they did.

As a program, for TensorFlow: `python -m tests.interop.fuzz.run OUT FIRST COUNT`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from typing import Any

import numpy as np

from tests.interop.fuzz import control, elementwise, networks, shapes, state, wrong
from tests.interop.fuzz.program import DIGITS, FLOATS, Item, Program, Skip, Value, error_kind

NO_VALUE = "no value"
KINDS = [(elementwise, 6), (shapes, 6), (networks, 2), (control, 3), (state, 1), (wrong, 2)]


def run(tf: Any, number: int) -> Any:
    """Build and run one program; gives JSON's values: what was made, what steps gave, what the variables hold."""
    rng = random.Random(number)
    with tf.Graph().as_default(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf.set_random_seed(11)
        p = Program(tf, rng)
        _inputs(p)
        for _ in range(rng.randint(6, 22)):
            module = rng.choices([m for m, _ in KINDS], [w for _, w in KINDS])[0]
            p.grow(module.MAKERS)
        items = [_described(item) for item in p.items]
        gradients, train = _trained(p)
        with tf.Session() as session:
            return {"items": items, **_steps(p, session, gradients, train)}


def _inputs(p: Program) -> None:
    tf, rng = p.tf, p.rng
    for i in range(rng.randint(1, 3)):
        shape, dtype = p.shape(0, 4), p.some("float32", "float32", "float32", "float64", "int32", "bool")
        static: Any = [n if rng.random() < 0.6 else None for n in shape]
        if rng.random() < 0.15:
            static = None
        if rng.random() < 0.2:
            tensor = tf.placeholder_with_default(p.array(shape, dtype), static, name=f"x{i}")
        else:
            tensor = tf.placeholder(dtype, static, name=f"x{i}")
            p.feeds[tensor] = p.array(shape, dtype)
        value = Value(tensor, shape, dtype)
        p.values.append(value)
        if dtype in FLOATS:
            p.sources.append(value)
    p.grow([state.variable])
    p.grow([state.variable])


def _described(item: Item) -> Any:
    kinds = []
    for t in item.tensors:
        shape = getattr(t, "shape", None)
        static = None if shape is None or shape.rank is None else shape.as_list()
        kinds.append([getattr(t, "name", None), _dtype(t), static])
    return [item.what, item.error.partition(":")[0], kinds, item.error]


def _dtype(t: Any) -> str:
    dtype = getattr(t, "dtype", None)
    return dtype.base_dtype.name if dtype is not None else type(t).__name__


def _trained(p: Program) -> tuple[list[tuple[str, Any]], Any]:
    """Gradients of what was made with respect to inputs and variables, and a step of an optimizer."""
    tf = p.tf
    floats = [v for v in p.values if v.dtype in FLOATS and 0 not in v.shape][-8:]
    sources = list(p.sources)
    found: list[tuple[str, Any]] = []
    if not floats or not sources:
        return found, None
    loss = tf.add_n([tf.cast(tf.reduce_mean(tf.tanh(v.tensor * 0.3)), tf.float32) for v in floats])
    wanted = [("loss", loss, sources)]
    wanted += [(f"value {floats.index(v)}", v.tensor, sources) for v in p.rng.sample(floats, min(2, len(floats)))]
    for what, y, xs in wanted:
        try:
            for i, g in enumerate(tf.gradients(y, [x.tensor for x in xs])):
                found.append((f"gradient of {what} by source {i}", g))
        except Exception as e:
            found.append((f"gradient of {what}", error_kind(tf, e)))
            # TensorFlow stays inside the loop whose gradient failed.
            getattr(tf.get_default_graph(), "_set_control_flow_context", lambda _: None)(None)
    train = None
    p.sources = [v for v in sources if any(v.tensor is t for t in tf.trainable_variables())]
    if p.sources:
        try:
            train = state.train(p, loss)
        except Skip:
            train = None
        except Exception as e:
            found.append(("train", error_kind(tf, e)))
    return found, train


def _steps(p: Program, session: Any, gradients: list[tuple[str, Any]], train: Any) -> Any:
    tf = p.tf
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    values: list[Any] = []
    pure = [(i, item) for i, item in enumerate(p.items) if item.tensors and item.pure]
    fetched = _fetch(p, session, [[t for t in item.tensors if hasattr(t, "op")] for _, item in pure])
    for (i, item), got in zip(pure, fetched):
        values.append([f"{i} {item.what}", got])
    slopes = []
    for what, g in gradients:
        if g is None or isinstance(g, str):
            slopes.append([what, g, None])
            continue
        kind = [type(g).__name__ == "IndexedSlices", _dtype(g), None if g.shape.rank is None else g.shape.as_list()]
        slopes.append([what, kind, tf.convert_to_tensor(g)])
    for slope, got in zip(slopes, _fetch(p, session, [[] if s[2] is None else [s[2]] for s in slopes])):
        slope[2] = got
    impure = [
        [i.what, _fetch(p, session, [[t for t in i.tensors if hasattr(t, "op")]])[0]] for i in p.items if not i.pure
    ]
    trained = ""
    if train is not None:
        try:
            for _ in range(3):
                session.run(train, p.feeds)
        except Exception as e:
            trained = error_kind(tf, e)
    kept = [
        [v.op.name, v.dtype.base_dtype.name, bool(v.trainable), v.shape.as_list(), _plain(session.run(v))]
        for v in tf.global_variables()
    ]
    return {"values": values, "gradients": slopes, "impure": impure, "trained": trained, "variables": kept}


def _fetch(p: Program, session: Any, fetches: list[list[Any]]) -> list[Any]:
    """Fetch all at once, or, if that fails, each by itself with the kind of its error."""
    try:
        return [[_plain(v) for v in group] for group in session.run(fetches, p.feeds)]
    except Exception:
        pass
    found: list[Any] = []
    for fetch in fetches:
        try:
            found.append([_plain(v) for v in session.run(fetch, p.feeds)])
        except Exception as e:
            # In branches in branches TensorFlow sometimes gives none of what it has computed.
            found.append(NO_VALUE if "does not have value" in str(e) else error_kind(p.tf, e))
    return found


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        flat: list[Any] = [int(v) for v in array.ravel()]
    elif array.dtype.kind in "SOU":
        flat = [str(v) for v in array.ravel()]
    elif array.dtype.kind == "c":
        flat = [round_(part, 6) for v in array.ravel() for part in (v.real, v.imag)]
    else:
        flat = [round_(v, DIGITS.get(array.dtype.name, 6)) for v in array.ravel()]
    if len(flat) > 24:
        total = (
            np.abs(array).sum() if array.dtype.kind in "fc" else int(np.sum(array)) if array.dtype.kind in "biu" else 0
        )
        flat = [*flat[:20], round_(total, 6) if isinstance(total, np.floating) else total]
    return [list(array.shape), array.dtype.name, flat]


def round_(value: Any, digits: int) -> float:
    return float(f"{float(value):.{digits}g}")


def main(out: str, first: str, count: str) -> None:
    """Run some with TensorFlow, or with this front end where there is none."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if os.environ.get("DTF_FUZZ_OURS"):
        import dtfctl.runtime as tf
    else:
        import tensorflow

        tf = tensorflow.compat.v1
        tf.disable_v2_behavior()
        tf.logging.set_verbosity(tf.logging.ERROR)
    with open(out, "w") as file:
        for number in range(int(first), int(first) + int(count)):
            try:
                found = run(tf, number)
            except Exception as e:
                found = {"broke": f"{type(e).__name__}: {e}"}
                if os.environ.get("DTF_FUZZ_RAISE"):
                    raise
            file.write(json.dumps([number, found], separators=(",", ":")) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
