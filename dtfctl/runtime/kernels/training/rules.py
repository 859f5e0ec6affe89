"""The update rules, for numpy or cupy arrays of variables and slots.

Each takes the array namespace, the variable and its slots, then hyperparameters by TensorFlow's names as scalars of the
variable's type, the gradient, and where the variable's next value goes; slots are changed in place, and so is the
variable where that is itself. Formulas are those of TensorFlow's training_ops; dense and sparse ops share them
(a sparse op passes the rows it names).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Elements worked on at a time: what one pass leaves is still in a cache for the next, and threads side by side do not
# wait for the interpreter's lock between passes (with an eighth of this two cores take twice as long).
BLOCK = 1 << 18


def gradient_descent(xp: Any, var: Any, *, alpha: Any, grad: Any, out: Any) -> None:
    if xp is not np or not (var.flags.c_contiguous and grad.flags.c_contiguous and grad.size > BLOCK):
        xp.subtract(var, grad * alpha, out=out)
        return
    descend(var, [grad], alpha, np.empty(BLOCK, np.result_type(grad, alpha)), out)


def descend(var: Any, terms: Sequence[Any], alpha: Any, scratch: Any, out: Any) -> None:
    """Gradient descent by the sum of contiguous arrays, in one pass over memory.

    Args:
        scratch: a vector of any length.
        out: gets the result; may be `var`.
    """
    out, var, first, *others = (x.reshape(-1) for x in (out, var, *terms))
    for start in range(0, len(var), len(scratch)):
        rows = slice(start, start + len(scratch))
        part = var[rows]
        change = scratch[: len(part)]
        if others:
            np.add(first[rows], others[0][rows], change)
            for more in others[1:]:
                np.add(change, more[rows], change)
            np.multiply(change, alpha, change)
        else:
            np.multiply(first[rows], alpha, change)
        np.subtract(part, change, out[rows])


def momentum(
    xp: Any, var: Any, accum: Any, *, lr: Any, grad: Any, out: Any, momentum: Any, use_nesterov: bool = False
) -> None:
    accum *= momentum
    accum += grad
    if use_nesterov:
        step = accum * momentum
        step *= lr
        step += grad * lr
        xp.subtract(var, step, out=out)
    else:
        xp.subtract(var, accum * lr, out=out)


def keras_momentum(
    xp: Any, var: Any, accum: Any, *, lr: Any, grad: Any, out: Any, momentum: Any, use_nesterov: bool = False
) -> None:
    scaled = grad * lr
    accum *= momentum
    accum -= scaled
    if use_nesterov:
        xp.add(var, accum * momentum - scaled, out=out)
    else:
        xp.add(var, accum, out=out)


def adam(
    xp: Any,
    var: Any,
    m: Any,
    v: Any,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    out: Any,
    use_nesterov: bool = False,
) -> None:
    one = var.dtype.type(1)
    alpha = lr * xp.sqrt(one - beta2_power) / (one - beta1_power)
    _decay_towards(m, grad, one - beta1)
    _decay_towards(v, grad * grad, one - beta2)
    step = grad * (one - beta1) + m * beta1 if use_nesterov else m * alpha
    if use_nesterov:
        step *= alpha
    denominator = xp.sqrt(v)
    denominator += epsilon
    step /= denominator
    xp.subtract(var, step, out=out)


def adam_with_amsgrad(
    xp: Any,
    var: Any,
    m: Any,
    v: Any,
    vhat: Any,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    out: Any,
) -> None:
    one = var.dtype.type(1)
    alpha = lr * xp.sqrt(one - beta2_power) / (one - beta1_power)
    _decay_towards(m, grad, one - beta1)
    _decay_towards(v, grad * grad, one - beta2)
    xp.maximum(vhat, v, out=vhat)
    xp.subtract(var, m * alpha / (xp.sqrt(vhat) + epsilon), out=out)


def ada_max(
    xp: Any,
    var: Any,
    m: Any,
    v: Any,
    *,
    beta1_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    out: Any,
) -> None:
    one = var.dtype.type(1)
    _decay_towards(m, grad, one - beta1)
    xp.maximum(v * beta2, xp.abs(grad), out=v)
    xp.subtract(var, lr / (one - beta1_power) * (m / (v + epsilon)), out=out)


def adagrad(
    xp: Any,
    var: Any,
    accum: Any,
    *,
    lr: Any,
    grad: Any,
    out: Any,
    epsilon: Any = None,
    update_slots: bool = True,
) -> None:
    if update_slots:
        accum += grad * grad
    root = xp.sqrt(accum)
    if epsilon is not None:
        root += epsilon
    xp.subtract(var, grad * lr / root, out=out)


def adadelta(
    xp: Any, var: Any, accum: Any, accum_update: Any, *, lr: Any, rho: Any, epsilon: Any, grad: Any, out: Any
) -> None:
    rest = var.dtype.type(1) - rho
    accum *= rho
    accum += grad * grad * rest
    update = xp.sqrt(accum_update + epsilon) / xp.sqrt(accum + epsilon) * grad
    xp.subtract(var, update * lr, out=out)
    accum_update *= rho
    accum_update += update * update * rest


def rms_prop(
    xp: Any, var: Any, ms: Any, mom: Any, *, lr: Any, rho: Any, momentum: Any, epsilon: Any, grad: Any, out: Any
) -> None:
    _decay_towards(ms, grad * grad, var.dtype.type(1) - rho)
    mom *= momentum
    mom += grad * lr / xp.sqrt(ms + epsilon)
    xp.subtract(var, mom, out=out)


def centered_rms_prop(
    xp: Any,
    var: Any,
    mg: Any,
    ms: Any,
    mom: Any,
    *,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
    grad: Any,
    out: Any,
) -> None:
    rest = var.dtype.type(1) - rho
    _decay_towards(ms, grad * grad, rest)
    _decay_towards(mg, grad, rest)
    mom *= momentum
    mom += grad * lr / xp.sqrt(ms - mg * mg + epsilon)
    xp.subtract(var, mom, out=out)


def add_sign(
    xp: Any, var: Any, m: Any, *, lr: Any, alpha: Any, sign_decay: Any, beta: Any, grad: Any, out: Any
) -> None:
    m *= beta
    m += grad * (var.dtype.type(1) - beta)
    xp.subtract(var, lr * (alpha + sign_decay * (xp.sign(grad) * xp.sign(m))) * grad, out=out)


def power_sign(
    xp: Any, var: Any, m: Any, *, lr: Any, logbase: Any, sign_decay: Any, beta: Any, grad: Any, out: Any
) -> None:
    m *= beta
    m += grad * (var.dtype.type(1) - beta)
    xp.subtract(var, lr * xp.exp(logbase * sign_decay * (xp.sign(grad) * xp.sign(m))) * grad, out=out)


def proximal_gradient_descent(xp: Any, var: Any, *, alpha: Any, l1: Any, l2: Any, grad: Any, out: Any) -> None:
    """FOBOS (Duchi and Singer 2009)."""
    xp.subtract(var, grad * alpha, out=out)
    one = var.dtype.type(1)
    if l1 > 0:
        out[...] = xp.sign(out) * xp.maximum(xp.abs(out) - alpha * l1, var.dtype.type(0)) / (one + l2 * alpha)
    else:
        out /= one + l2 * alpha


def proximal_adagrad(xp: Any, var: Any, accum: Any, *, lr: Any, l1: Any, l2: Any, grad: Any, out: Any) -> None:
    accum += grad * grad
    rate = lr / xp.sqrt(accum)
    xp.subtract(var, grad * rate, out=out)
    one = var.dtype.type(1)
    if l1 > 0:
        out[...] = xp.sign(out) * xp.maximum(xp.abs(out) - rate * l1, var.dtype.type(0)) / (one + l2 * rate)
    else:
        out /= one + l2 * rate


def adagrad_da(
    xp: Any,
    var: Any,
    gradient_accumulator: Any,
    gradient_squared_accumulator: Any,
    *,
    grad: Any,
    out: Any,
    lr: Any,
    l1: Any,
    l2: Any,
    global_step: Any,
) -> None:
    """Dual averaging (Duchi, Hazan and Singer 2011)."""
    gradient_accumulator += grad
    gradient_squared_accumulator += grad * grad
    steps = var.dtype.type(float(global_step))
    scale = l2 * (steps * lr) + xp.sqrt(gradient_squared_accumulator)
    if l1 > 0:
        shrunk = xp.maximum(xp.abs(gradient_accumulator) - steps * l1, var.dtype.type(0))
        out[...] = -lr * xp.sign(gradient_accumulator) * shrunk / scale
    else:
        out[...] = -lr * gradient_accumulator / scale


def ftrl(
    xp: Any,
    var: Any,
    accum: Any,
    linear: Any,
    *,
    grad: Any,
    out: Any,
    lr: Any,
    l1: Any,
    l2: Any,
    lr_power: Any,
    l2_shrinkage: Any = None,
    multiply_linear_by_lr: bool = False,
) -> None:
    """FTRL-proximal (McMahan et al. 2013); with `l2_shrinkage` the V2 form."""
    two = var.dtype.type(2)
    shrunk = grad if l2_shrinkage is None else grad + two * l2_shrinkage * var
    new_accum = accum + grad * grad
    new_power, old_power = _ftrl_power(xp, new_accum, lr_power), _ftrl_power(xp, accum, lr_power)
    if multiply_linear_by_lr:
        linear += shrunk * lr - (new_power - old_power) * var
        limit, quadratic = l1 * lr, new_power + two * l2 * lr
    else:
        linear += shrunk - (new_power - old_power) / lr * var
        limit, quadratic = l1, new_power / lr + two * l2
    out[...] = (xp.minimum(xp.maximum(linear, -limit), limit) - linear) / quadratic
    accum[...] = new_accum


def ftrl_of_all(xp: Any, var: Any, accum: Any, linear: Any, *, out: Any, **given: Any) -> None:
    """FTRL-proximal of whole variables: what is not beyond the limit is zero, also where something is no number.

    TensorFlow's update of rows divides by nothing there.
    """
    ftrl(xp, var, accum, linear, out=out, **given)
    limit = given["l1"] * given["lr"] if given.get("multiply_linear_by_lr") else given["l1"]
    out[~(abs(linear) > limit)] = 0


def _ftrl_power(xp: Any, accum: Any, lr_power: Any) -> Any:
    return xp.sqrt(accum) if lr_power == -0.5 else accum**-lr_power


def _decay_towards(average: Any, value: Any, rate: Any) -> None:
    difference = value - average
    difference *= rate
    average += difference
