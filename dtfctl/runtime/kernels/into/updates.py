"""Updates of variables by gradients of known shape: no temporaries, few passes.

Formulas are those of kernels/training/rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.compiled.chains import Link, chain
from dtfctl.runtime.kernels.compiled.jit import LEAST_BYTES, compiled, loops
from dtfctl.runtime.kernels.into.elementwise import flat, formula_of_sum, is_float
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, fuses
from dtfctl.runtime.kernels.into.parallel import in_parallel
from dtfctl.runtime.kernels.into.products import adder
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit, makes
from dtfctl.runtime.kernels.native import updating
from dtfctl.runtime.kernels.native.sketch import Sketch
from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.state.common import variable_finder
from dtfctl.runtime.kernels.training import rules
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory.held_value import change_all


def finder(k: KernelBuild) -> Callable[[Any], Variable]:
    """Make a function from what a node's argument for a variable gets, a reference or a handle, to the variable."""
    return variable_finder(k) if k.node.op.startswith("Resource") else _same


def _same(variable: Any) -> Any:
    return variable


def check_shape(variable: Variable, shape: tuple[int, ...]) -> None:
    """Check that a variable has a value of this shape.

    Raises:
        Unfit: the variable has no value, or one of another shape.
    """
    if variable.peek() is None or variable.peek().shape != shape:
        raise Unfit


def _descend_by_product(
    k: KernelBuild, product: KernelBuild, specs: list[Any], beside_onednn: bool
) -> Callable[..., Any] | None:
    """Make the update of a variable by a gradient that is a matrix product: one product added to the variable.

    Args:
        k: the ApplyGradientDescent; product: the MatMul that gives its gradient and nothing else.
        specs: of the learning rate and of the product's two factors.
        beside_onednn: whether the plan has work for oneDNN's threads.

    Returns:
        A function of the variable, the learning rate and the factors.
    """
    alpha, a, b = specs
    if not is_float(a) or a.dtype != b.dtype or len(a.shape) != 2 or len(b.shape) != 2:
        return None
    if alpha is None or alpha.shape or k.attr("use_locking") or 0 in a.shape or 0 in b.shape:
        return None
    ta, tb = bool(product.attr("transpose_a")), bool(product.attr("transpose_b"))
    shape = a.shape[1 if ta else 0], b.shape[0 if tb else 1]
    add = adder(a, b, ta, tb, beside_onednn)
    if add is None:
        return None
    find = finder(k)
    by_handle = find is not _same

    def descend(ref: Any, alpha: Any, a: Any, b: Any) -> Any:
        rate = float(alpha)
        # A product times zero is left out by BLAS, whatever is in it.
        if not rate or not a.flags.c_contiguous or not b.flags.c_contiguous:
            raise Unfit
        variable = find(ref)
        with variable.lock:
            check_shape(variable, shape)
            variable.change(lambda array: add(-rate, a, b, array))
        return None if by_handle else variable

    return descend


def _descend_by_sum(k: KernelBuild, specs: list[Any]) -> Callable[..., Any] | None:
    """Make the update of a variable by a sum of gradients, which is never there as a whole.

    Args:
        k: the ApplyGradientDescent, whose gradient an AddN gives and gives nothing else.
        specs: of the learning rate and of what is added up.

    Returns:
        A function of the variable, the learning rate and what is added up.
    """
    alpha, *terms = specs
    grad = terms[0]
    if len(terms) < 2 or not is_float(grad) or any(t != grad for t in terms):
        return None
    if alpha is None or alpha.shape or k.attr("use_locking"):
        return None
    return _descent(k, alpha, grad, len(terms))


@fuses("ApplyGradientDescent", "ResourceApplyGradientDescent")
def _descend_by_what_gives_the_gradient(node: Node, around: Around) -> Iterator[Fusion]:
    """Let the update of a variable do the product or the sum that gives its gradient."""
    maker = around.only_made_by(node.inputs[2], "MatMul", "AddN")
    if maker is None:
        return
    operands = [around.root(edge) for edge in (node.inputs[1], *maker.inputs)]
    specs = [around.spec(operand) for operand in operands]
    if maker.op == "MatMul":
        call = _descend_by_product(around.build(node), around.build(maker), specs, around.has_onednn)
    else:
        call = _descend_by_sum(around.build(node), specs)
    if call is not None:
        into = Into(call, fills=False)
        yield [Line(node, into, [around.root(node.inputs[0]), *operands], replaces=(maker,))]


@makes("ApplyGradientDescent", "ResourceApplyGradientDescent")
def _gradient_descent(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    alpha, grad = inputs[1:]
    if not is_float(grad) or alpha is None or alpha.shape or k.attr("use_locking"):
        return None
    if int(np.prod(grad.shape)) <= rules.BLOCK:
        return Into(_small_descent(k, grad.shape), scratch=(grad,), fills=False)
    return Into(_descent(k, alpha, grad, 1), fills=False)


def _small_descent(k: KernelBuild, shape: tuple[int, ...]) -> Callable[..., Any]:
    find = finder(k)
    by_handle = find is not _same

    def descend(ref: Any, alpha: Any, grad: Any, scratch: Any) -> Any:
        variable = find(ref)
        with variable.lock:
            check_shape(variable, shape)
            np.multiply(grad, alpha, scratch)
            variable.update(lambda now, then: np.subtract(now, scratch, then))
        return None if by_handle else variable

    return descend


def _descent(k: KernelBuild, alpha: Spec, grad: Spec, count: int) -> Callable[..., Any]:
    """Make the update of a variable by the sum of `count` gradients, in one pass over them."""
    find = finder(k)
    by_handle = find is not _same
    apply = _descent_loop(alpha, grad, count) or _descent_passes(grad, count)

    def descend(ref: Any, alpha: Any, *terms: Any) -> Any:
        if not all(t.flags.c_contiguous for t in terms):
            raise Unfit
        variable = find(ref)
        with variable.lock:
            check_shape(variable, grad.shape)
            if not variable.peek().flags.c_contiguous:
                raise Unfit
            variable.update(lambda now, then: apply(alpha[()], now, *terms, then))
        return None if by_handle else variable

    return descend


def _descent_loop(alpha: Spec, grad: Spec, count: int) -> Callable[..., None] | None:
    """Compile the update by a sum of gradients to a loop; None where numpy is to do it."""
    if grad.nbytes < LEAST_BYTES:
        return None
    terms = tuple(range(2, count + 2))
    links = [Link(formula_of_sum(count), terms, False), Link("{0} - {1} * {2}", (1, (0,), 0), True)]
    loop = chain(links, [alpha, grad, *[grad] * count], grad)
    return None if loop is None else loop.call


def _descent_passes(grad: Spec, count: int) -> Callable[..., None]:
    size = max(min(rules.BLOCK, int(np.prod(grad.shape))), 1)

    def rule(rate: Any, current: Any, *arrays: Any) -> None:
        *terms, out = arrays
        rules.descend(current, terms, rate, np.empty(size, grad.dtype), out)

    return in_parallel(Into(rule, by_rows=True), [None, *[grad] * (count + 1)], [grad])


# Slots are changed in place; `out` gets the next value of the variable, and may be `var`.


def momentum(rates: Any, grad: Any, var: Any, accum: Any, out: Any, scratch: Any) -> None:
    lr, rate, nesterov = rates
    np.multiply(accum, rate, accum)
    np.add(accum, grad, accum)
    if nesterov:
        np.multiply(accum, rate * lr, scratch)
        np.subtract(var, scratch, out)
        np.multiply(grad, lr, scratch)
        np.subtract(out, scratch, out)
    else:
        np.multiply(accum, lr, scratch)
        np.subtract(var, scratch, out)


def adam(rates: Any, grad: Any, var: Any, m: Any, v: Any, out: Any, scratch: Any) -> None:
    power1, power2, lr, beta1, beta2, epsilon, nesterov = rates
    one = var.dtype.type(1)
    alpha = lr * np.sqrt(one - power2) / (one - power1)
    np.subtract(grad, m, scratch)
    np.multiply(scratch, one - beta1, scratch)
    np.add(m, scratch, m)
    np.multiply(grad, grad, scratch)
    np.subtract(scratch, v, scratch)
    np.multiply(scratch, one - beta2, scratch)
    np.add(v, scratch, v)
    np.sqrt(v, scratch)
    np.add(scratch, epsilon, scratch)
    if nesterov:
        np.divide(alpha, scratch, scratch)
        np.subtract(var, (grad * (one - beta1) + m * beta1) * scratch, out)
        return
    np.divide(m, scratch, scratch)
    np.multiply(scratch, alpha, scratch)
    np.subtract(var, scratch, out)


def rms_prop(rates: Any, grad: Any, var: Any, ms: Any, mom: Any, out: Any, scratch: Any) -> None:
    lr, rho, rate, epsilon = rates
    np.multiply(grad, grad, scratch)
    np.subtract(scratch, ms, scratch)
    np.multiply(scratch, var.dtype.type(1) - rho, scratch)
    np.add(ms, scratch, ms)
    np.add(ms, epsilon, scratch)
    np.sqrt(scratch, scratch)
    np.divide(grad, scratch, scratch)
    np.multiply(scratch, lr, scratch)
    np.multiply(mom, rate, mom)
    np.add(mom, scratch, mom)
    np.subtract(var, mom, out)


def adagrad(rates: Any, grad: Any, var: Any, accum: Any, out: Any, scratch: Any) -> None:
    lr, updates = rates
    if updates:
        np.multiply(grad, grad, scratch)
        np.add(accum, scratch, accum)
    np.sqrt(accum, scratch)
    np.divide(grad, scratch, scratch)
    np.multiply(scratch, lr, scratch)
    np.subtract(var, scratch, out)


# op core -> (rule, how many variables, position of the gradient among the other inputs, flag)
_RULES: dict[str, tuple[Callable[..., None], int, int, str | None]] = {
    "Momentum": (momentum, 2, 1, "use_nesterov"),
    "Adam": (adam, 3, 6, "use_nesterov"),
    "RMSProp": (rms_prop, 3, 4, None),
    "Adagrad": (adagrad, 2, 1, "update_slots"),
}


def _rule(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    op = k.node.op
    rule, count, grad_at, flag = _RULES[op.rpartition("Apply")[2]]
    others = inputs[count:]
    grad = others.pop(grad_at)
    if not is_float(grad) or k.attr("use_locking") or any(s is None or s.shape for s in others):
        return None
    finders = [finder(k) for _ in range(count)]
    by_handle = finders[0] is not _same
    flags = () if flag is None else (bool(k.attr(flag)),)
    loop = compiled(_LOOPS[rule], grad.dtype, grad.nbytes)
    native, wants = _natively(op.rpartition("Apply")[2], any(flags), grad) if loop is None else (None, ())
    if loop is not None:
        rule = _by_loop(rule, loop)
    apply = native or in_parallel(Into(rule, scratch=(grad,), by_rows=True), [None, *[grad] * (count + 1)], [grad])
    # Machine code needs no room between its steps.
    room = () if native is not None else (grad,)

    # The variables of the step before, and in which order their locks are taken.
    order: tuple[list[Variable], list[Variable]] = ([], [])

    def update(*args: Any) -> Any:
        nonlocal order
        variables = [find(a) for find, a in zip(finders, args)] if by_handle else list(args[:count])
        rest = list(args[count : len(args) - len(room)])
        scratch = args[len(args) - len(room) :]
        gradient = rest.pop(grad_at)
        known, held = order
        if variables != known:
            held = sorted(set(variables), key=id)
            order = variables, held
        if len(held) != count:
            raise Unfit
        for variable in held:
            variable.lock.acquire()
        try:
            shape = gradient.shape
            for variable in variables:
                value = variable.peek()
                if value is None or value.shape != shape or not value.flags.c_contiguous:
                    raise Unfit
            # Another one would keep whoever changes it from finding it to be the only one.
            del value
            rates = (*(r[()] for r in rest), *flags)
            var, *slots = variables
            change_all(
                slots,
                lambda *given: var.update(lambda now, then: apply(rates, gradient, now, *given, then, *scratch)),
            )
        finally:
            for variable in held:
                variable.lock.release()
        return None if by_handle else variables[0]

    return Into(update, scratch=room, fills=False, wants=wants)


def _natively(rule: str, flag: bool, grad: Spec) -> tuple[Callable[..., None] | None, tuple[Sketch, ...]]:
    """Make the rule one pass by machine code: the call, or what has to be compiled for one."""
    sketch = updating.sketch_of(rule, flag, grad)
    if sketch is None:
        return None, ()
    try:
        update = updating.update_by(sketch)
    except KeyError:
        return None, (sketch,)
    if update is None:
        return None, ()
    dtype, is_number = grad.dtype, not grad.shape

    def apply(rates: Any, grad: Any, var: Any, *rest: Any) -> None:
        *slots, out = rest
        if out is not var:
            np.copyto(out, var)
        given = factors_of(rule, rates, dtype)
        if is_number:
            update(grad.reshape(1), given, *(a.reshape(1) for a in (out, *slots)))
        else:
            update(grad, given, out, *slots)

    return apply, ()


# The last rates by rule and type, and what machine code gets for them: all variables of a step have the same.
_LAST: dict[tuple[str, Any], tuple[Any, Any]] = {}


def factors_of(rule: str, rates: Any, dtype: Any) -> Any:
    """Return what machine code gets of the rates of a rule.

    Raises:
        Unfit: it has no way for these.
    """
    last, made = _LAST.get((rule, dtype), (None, None))
    if last != rates:
        made = np.array(FACTORS[rule](rates), dtype)
        _LAST[rule, dtype] = rates, made
    return made


def _adam_factors(rates: Any) -> tuple[Any, ...]:
    power1, power2, lr, beta1, beta2, epsilon, _ = rates
    one = lr.dtype.type(1)
    return lr * np.sqrt(one - power2) / (one - power1), beta1, one - beta1, one - beta2, epsilon


def _rms_prop_factors(rates: Any) -> tuple[Any, ...]:
    lr, rho, rate, epsilon = rates
    return lr, lr.dtype.type(1) - rho, rate, epsilon


def _ftrl_factors(rates: Any) -> tuple[Any, ...]:
    lr, l1, l2, power = rates
    if not (lr > 0 and l1 >= 0 and l2 >= 0 and power == -0.5):
        raise Unfit
    return lr, l1, l2 + l2


# What machine code gets of the rates of a rule.
FACTORS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "Adam": _adam_factors,
    "Momentum": lambda rates: (rates[0], rates[1], rates[1] * rates[0]),
    "RMSProp": _rms_prop_factors,
    "Adagrad": lambda rates: (rates[0],),
    "Ftrl": _ftrl_factors,
}
_LOOPS: dict[Callable[..., None], Callable[..., None]] = {
    momentum: loops.momentum,
    adam: loops.adam,
    rms_prop: loops.rms_prop,
    adagrad: loops.adagrad,
}


def _by_loop(rule: Callable[..., None], loop: Callable[..., None]) -> Callable[..., None]:
    """Make a rule one compiled pass."""

    def run(rates: Any, grad: Any, *arrays: Any) -> None:
        one = grad.dtype.type(1)
        if rule is adam:
            power1, power2, lr, beta1, beta2, epsilon, nesterov = rates
            alpha = lr * np.sqrt(one - power2) / (one - power1)
            rates = alpha, beta1, one - beta1, one - beta2, epsilon, nesterov
        elif rule is rms_prop:
            lr, rho, rate, epsilon = rates
            rates = lr, one - rho, rate, epsilon
        loop(flat(grad), *(a.reshape(-1) for a in arrays[:-1]), *rates)

    return run


makes(*(f"{prefix}Apply{core}" for core in _RULES for prefix in ("", "Resource")))(_rule)
