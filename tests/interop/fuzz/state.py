"""Variables: made by scopes, read, assigned, and trained by optimizers."""

from __future__ import annotations

from typing import Any

from tests.interop.fuzz.program import Program, Skip, Value

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("GradientDescentOptimizer", {}),
    "momentum": ("MomentumOptimizer", {"momentum": 0.9}),
    "nesterov": ("MomentumOptimizer", {"momentum": 0.9, "use_nesterov": True}),
    "adam": ("AdamOptimizer", {}),
    "adagrad": ("AdagradOptimizer", {}),
    "adadelta": ("AdadeltaOptimizer", {}),
    "rmsprop": ("RMSPropOptimizer", {"momentum": 0.5}),
    "centered": ("RMSPropOptimizer", {"centered": True}),
    "ftrl": ("FtrlOptimizer", {"l1_regularization_strength": 0.01}),
    "proximal": ("ProximalGradientDescentOptimizer", {"l1_regularization_strength": 0.01}),
    "proximal adagrad": ("ProximalAdagradOptimizer", {"l2_regularization_strength": 0.01}),
}


def variable(p: Program) -> None:
    """A variable as one of the many ways makes it."""
    tf = p.tf
    shape, dtype = p.shape(0, 2), p.some("float32", "float32", "float32", "float64")
    start = p.array(shape, dtype)
    words: dict[str, Any] = {"use_resource": p.some(True, False), "trainable": p.rng.random() < 0.85}
    kind = p.rng.randrange(6)
    if kind == 0:
        made = tf.Variable(start, name=p.some(None, "v", "w"), dtype=dtype, **words)
    elif kind == 1:
        with tf.variable_scope(p.some("a", "b", "a/c"), reuse=tf.AUTO_REUSE):
            made = tf.get_variable(f"v{len(p.items)}", initializer=start, dtype=dtype, **words)
    elif kind == 2:
        with tf.variable_scope(None, default_name="net"):
            made = tf.get_variable("w", shape, dtype, tf.constant_initializer(0.37), **words)
    elif kind == 3:
        with tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
            words.pop("use_resource")
            made = tf.get_variable(
                f"s{shape}".replace(" ", "").strip("s()").replace(",", "_") or "scalar",
                shape,
                tf.float32,
                tf.ones_initializer(),
                trainable=True,
            )
            dtype = "float32"
    elif kind == 4:
        seeded = p.some(
            "random_uniform",
            "random_normal",
            "truncated_normal",
            "variance_scaling",
            "glorot_normal",
            "he_uniform",
            "orthogonal",
        )
        if seeded in ("orthogonal",) and len(shape) < 2:
            shape = (3, 2)
        if seeded == "orthogonal":
            dtype = "float32"
        place = {"he_uniform": tf.initializers.he_uniform, "orthogonal": tf.orthogonal_initializer}.get(
            seeded
        ) or getattr(tf, f"{seeded}_initializer")
        with tf.variable_scope("i"):
            made = tf.get_variable(f"{seeded}{len(p.items)}", shape or (2,), dtype, place(seed=3), **words)
            shape = shape or (2,)
    else:
        words.pop("trainable")
        made = tf.Variable(tf.constant(start) * 2.0, trainable=False, name="local", **words)
    value = Value(made, shape, dtype)
    p.values.append(value)
    if words.get("trainable", False):
        p.sources.append(value)
    p.note(f"variable {kind} {sorted(words.items())}", made.read_value() if p.rng.random() < 0.5 else tf.identity(made))


def assigned(p: Program) -> None:
    """An assignment, and what is read after it."""
    tf = p.tf
    shape = p.shape(1, 2)
    start = p.array(shape, "float32")
    made = tf.Variable(start, trainable=False, name="state", use_resource=p.some(True, False))
    kind = p.rng.randrange(8)
    rows = p.constant((1, *shape[1:])).tensor
    if kind == 0:
        done = made.assign(start * 2.0)
    elif kind == 1:
        done = tf.assign_add(made, start)
    elif kind == 2:
        done = tf.assign_sub(made, start * 0.3)
    elif kind == 3:
        done = tf.scatter_update(made, [0], rows)
    elif kind == 4:
        done = tf.scatter_add(made, [0], rows)
    elif kind == 5:
        done = tf.scatter_nd_update(made, [[0]], rows)
    elif kind == 6:
        done = made[0].assign(rows[0])
    else:
        done = tf.count_up_to(tf.Variable(1, trainable=False, name="count"), 100)
    p.note(f"assigned {kind}", tf.identity(done))
    p.items[-1].pure = False


def moving(p: Program) -> None:
    """Averages, schedules and steps."""
    tf = p.tf
    kind = p.rng.randrange(4)
    step = tf.Variable(7, trainable=False, name="step")
    if kind == 0:
        a = p.pick(("float32",), 0, 2)
        held = tf.Variable(p.array(a.shape, "float32"), trainable=False, name="held")
        average = tf.train.ExponentialMovingAverage(0.9, num_updates=p.some(None, step))
        update = average.apply([held])
        with tf.control_dependencies([update]):
            p.note("average", tf.identity(average.average(held)))
        p.items[-1].pure = False
    elif kind == 1:
        name, more = p.some(
            ("exponential_decay", (5, 0.5)), ("inverse_time_decay", (5, 0.5)), ("natural_exp_decay", (5, 0.5)),
            ("polynomial_decay", (10,)), ("cosine_decay", (10,)),
        )  # fmt: skip
        p.keep(name, getattr(tf.train, name)(0.3, step, *more), (), "float32")
    elif kind == 2:
        p.keep("piecewise_constant", tf.train.piecewise_constant(step, [3, 9], [0.1, 0.2, 0.3]), (), "float32")
    else:
        global_step = tf.train.get_or_create_global_step()
        p.note("global_step", global_step + 1)


def train(p: Program, loss: Any) -> Any:
    """A step of one of the optimizers, as programs make it."""
    tf = p.tf
    name, words = OPTIMIZERS[p.some(*OPTIMIZERS)]
    optimizer = getattr(tf.train, name)(p.some(0.05, 0.3), **words)
    if name.startswith("Proximal") and any(v.dtype == "float64" for v in p.sources):
        # TensorFlow's have float32 rates there, which is an error.
        raise Skip
    variables = [v.tensor for v in p.sources]
    kind = p.rng.randrange(4)
    step = tf.train.get_or_create_global_step() if p.rng.random() < 0.4 else None
    if kind <= 1:
        return optimizer.minimize(loss, global_step=step, var_list=variables)
    pairs = [(g, v) for g, v in optimizer.compute_gradients(loss, variables) if g is not None]
    if not pairs:
        raise Skip
    if kind == 2 and len({g.dtype for g, _ in pairs}) == 1:
        clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.7)
        pairs = list(zip(clipped, [v for _, v in pairs]))
    else:
        pairs = [(tf.clip_by_value(g, -0.1, 0.1), v) for g, v in pairs]
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return optimizer.apply_gradients(pairs, global_step=step)


MAKERS = [variable, variable, assigned, moving]
