"""Every promise of every kernel, looked at while the kernel runs.

Calls come from the golden and oracle cases, and are run again with every type a registration takes, with arrays that
are not contiguous, with others in the same memory, and with other values.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.executor.binding import argument_positions
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.node_graph import make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.kernels.control.tensor_list import box
from dtfctl.runtime.kernels.into.factors import Factor, ProductSum
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit, load_makers
from dtfctl.runtime.kernels.promises import Promises
from dtfctl.runtime.kernels.registry import KernelSpec, as_outputs, find_kernel, kernels_of, load_all_kernels
from tests.support.kernel_calls import Call, is_numbers, recorded_calls

_REFUSED = (OpError, ValueError, IndexError, OverflowError, TypeError, ZeroDivisionError)


def promising() -> dict[str, list[KernelSpec]]:
    """The registrations for a CPU that promise something, by op."""
    found = {
        op: [s for s in specs if "CPU" in s.devices and made_by(s.promises)] for op, specs in load_all_kernels().items()
    }
    return {op: specs for op, specs in sorted(found.items()) if specs}


def made_by(promises: Promises) -> list[str]:
    """What is promised, by name."""
    return [name for name in CHECKS if getattr(promises, name) not in (False, None, ())]


@cache
def calls_of(op: str) -> list[Call]:
    """Calls of the op's kernels that succeed: those recorded, and the same with other types and layouts."""
    recorded = _recorded().get(op, []) or list(_made(op))
    return [call for base in recorded for call in (base, *_cast(base), *_strided(base), *_single(base))]


@cache
def _recorded() -> dict[str, list[Call]]:
    with np.errstate(all="ignore"):
        return recorded_calls({*PROMISING, *FORMS, *_LIKE.values()})


# Ops that are in no case, and those that are called alike.
_LIKE = {
    "AccumulateNV2": "AddN",
    "BiasAddV1": "BiasAdd",
    "DebugGradientIdentity": "Identity",
    "EuclideanNorm": "Sum",
    "LoopCond": "LogicalNot",
    "_MatMulByFactor": "MatMul",
    "ResourceGatherNd": "ResourceGather",
    "VariableShape": "ReadVariableOp",
}


def _made(op: str) -> Iterator[Call]:
    """Calls of an op that is in no case."""
    if op in _SHARING:
        yield from _sharing(op)
        return
    for call in _recorded().get(_LIKE.get(op, ""), []):
        node, build = call.build.node, call.build
        names = {a.name for a in get_signature(op).attrs}
        attrs = {k: v for k, v in node.raw_attrs.items() if k in names}
        made = replace(build, node=make_node("op", op, attrs, list(node.inputs)))
        spec = find_kernel(made.node, "CPU")
        if spec is not None:
            # Indices of rows, one each, are indices of one dimension each.
            inputs = (*call.inputs[:-1], call.inputs[-1].reshape(-1, 1)) if op.endswith("Nd") else call.inputs
            yield Call(spec, made, (), inputs, call.values)


_SHARING = ("_AddProduct", "_MatMulByFactor")


def _sharing(op: str) -> Iterator[Call]:
    """Calls of products that share a factor or a sum, with the matrices of recorded products."""
    for call in _recorded()["MatMul"]:
        node, (a, b) = call.build.node, call.inputs
        ta, tb = bool(node.attr("transpose_a")), bool(node.attr("transpose_b"))
        if a.dtype not in (np.float32, np.float64) or tb or ta != (op == "_AddProduct"):
            continue
        sum_or_factor = ProductSum(np.zeros((a.shape[1], b.shape[1]), a.dtype)) if ta else Factor(b)
        made = make_node("op", op, {"T": node.raw_attrs["T"]}, list(node.inputs) + list(node.inputs[:1]) * ta)
        spec = find_kernel(made, "CPU")
        assert spec is not None
        inputs = (box(sum_or_factor), a, b) if ta else (a, box(sum_or_factor))
        yield Call(spec, replace(call.build, node=made), (), inputs, call.values)


def _cast(call: Call) -> Iterator[Call]:
    """The call with every other type that its registration takes in place of one type."""
    node, build = call.build.node, call.build
    if call.values or node.signature.is_stateful:
        return
    for attr in node.signature.attrs:
        given = node.attr(attr.name)
        allowed = frozenset(attr.allowed or _USUAL).union(*(s.types.get(attr.name, ()) for s in kernels_of(node.op)))
        if (
            attr.kind != "type"
            or not isinstance(given, DType)
            or given.is_object
            or attr.name not in _input_types(node)
        ):
            continue
        for other in sorted(allowed, key=lambda t: t.name):
            if (
                other is given
                or other.is_object
                or other.is_quantized
                or other.name.startswith(("float8", "int4", "uint4"))
            ):
                continue
            attrs = {**node.raw_attrs, attr.name: encode_attr("type", other)}
            changed = make_node(node.name, node.op, attrs, list(node.inputs), device=node.device)
            types = changed.input_types
            inputs = [
                x.astype(t.np) if is_numbers(x) and old is given else x
                for x, t, old in zip(call.inputs, types, node.input_types)
            ]
            spec = find_kernel(changed, "CPU")
            if spec is not None:
                yield Call(spec, replace(build, node=changed), call.lead, tuple(inputs), {})


def _input_types(node: Any) -> set[str]:
    return {a.type_attr for a in node.signature.inputs}


_USUAL = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32, dtypes.int64, dtypes.uint8)


def _strided(call: Call) -> Iterator[Call]:
    """The call with arrays that are not contiguous."""
    if any(is_numbers(x) and x.ndim and x.size > 1 for x in call.inputs):
        yield call.with_inputs([_apart(x) if is_numbers(x) else x for x in call.inputs])


def _apart(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not x.ndim:
        return x
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def _single(call: Call) -> Iterator[Call]:
    """The call with nothing but the first element of each dimension, and with no elements: many kernels take a short
    way then."""
    for size in (1, 0):
        inputs = [x[tuple(slice(size) for _ in x.shape)] if is_numbers(x) else x for x in call.inputs]
        if any(is_numbers(x) and x.ndim for x in inputs) and not call.values:
            yield call.with_inputs(inputs)


def kernel_of(call: Call) -> Callable[..., Any]:
    return call.spec.factory(call.build)


def promises_of(call: Call) -> Promises:
    return call.spec.promises


def results(call: Call, kernel: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        return as_outputs(kernel(*call.lead, *inputs))


def succeeds(call: Call) -> bool:
    """Whether the kernel takes such a call at all."""
    try:
        results(call, kernel_of(call), call.fresh_inputs())
    except _REFUSED:
        return False
    return True


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether results are the same bits, not a number being alike."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other):
        if not hasattr(a, "dtype"):
            if a is not b:
                return False
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            if a.reshape(-1).tolist() != b.reshape(-1).tolist():
                return False
        elif a.dtype.kind in "fcV" and np.dtype(a.dtype).kind != "V":
            if not np.array_equal(a, b, equal_nan=True):
                return False
        elif a.tobytes() != b.tobytes():
            return False
    return True


def other_values(call: Call, fixed: Sequence[int]) -> Iterator[list[Any]]:
    """The inputs with other values of the same shapes and types, but for those at some positions."""
    rng = np.random.default_rng(1)

    def changed(x: np.ndarray[Any, Any], how: str) -> np.ndarray[Any, Any]:
        if how == "turned":
            return x.reshape(-1)[::-1].reshape(x.shape).copy()
        if how == "ones":
            return np.ones(x.shape, x.dtype)
        if how == "zeros":
            return np.zeros(x.shape, x.dtype)
        if how == "special" and (x.dtype.kind in "fc" or x.dtype.name == "bfloat16"):
            return np.resize(np.array([np.nan, np.inf, -np.inf, -0.0, 1e30]), x.shape).astype(x.dtype)
        if x.dtype.kind in "iu":
            info = np.iinfo(x.dtype)
            return np.resize(np.array([info.max, info.min, 0, 1], x.dtype), x.shape)
        return rng.integers(0, 2, x.shape).astype(x.dtype)

    for how in ("turned", "ones", "zeros", "special"):
        yield [changed(x, how) if is_numbers(x) and i not in fixed else x for i, x in enumerate(call.fresh_inputs())]


def value_positions(call: Call) -> list[int]:
    """Where the inputs are whose values say something about the shape of the results."""
    follows = promises_of(call).shape_from
    if follows is None or not follows.values:
        return []
    return argument_positions(call.build.node, call.build.node.signature.inputs, follows.values)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


CHECKS: dict[str, Callable[[Call], str | None]] = {
    "lets_go": lambda call: check_lets_go(call),
    "shape_from": lambda call: check_shape_from(call),
    "of_shapes": lambda call: check_of_shapes(call),
    "is_total": lambda call: check_is_total(call),
    "is_view": lambda call: check_is_view(call),
    "passes": lambda call: check_passes(call),
    "checks": lambda call: check_checks(call),
    "looks_up": lambda call: check_looks_up(call),
    "updates_rows": lambda call: check_updates_rows(call),
    "undoes_itself": lambda call: check_undoes_itself(call),
    "neutral": lambda call: check_neutral(call),
    "leaves_state": lambda call: check_leaves_state(call),
}
PROMISING = promising()
FORMS = sorted(load_makers())


@pytest.mark.slow
@pytest.mark.parametrize("op", PROMISING)
def test_kernels_keep_their_promises(op: str) -> None:
    kept: set[tuple[int, str]] = set()
    for call in calls_of(op):
        if call.spec not in PROMISING[op] or not succeeds(call):
            continue
        index = PROMISING[op].index(call.spec)
        check_inputs_are_left(call)
        for promise in made_by(promises_of(call)):
            assert CHECKS[promise](call) is None, f"{promise}: {call}"
            kept.add((index, promise))
    made = {(i, promise) for i, spec in enumerate(PROMISING[op]) for promise in made_by(spec.promises)}
    assert kept == made, f"promises that no call has put to the test: {made - kept}"


def check_inputs_are_left(call: Call) -> None:
    inputs = call.fresh_inputs()
    before = [x.copy() for x in inputs if is_numbers(x)]
    results(call, kernel_of(call), inputs)
    assert same(before, [x for x in inputs if is_numbers(x)]), f"an input was written into: {call}"


def check_lets_go(call: Call) -> str | None:
    if not promises_of(call).lets_go_at(call.build.node):
        return None
    kernel, inputs = kernel_of(call), call.fresh_inputs()
    given = [x for x in inputs if is_numbers(x)]
    outputs = results(call, kernel, inputs)
    for x in given:
        for y in outputs:
            if y is x or (isinstance(y, np.ndarray) and np.shares_memory(x, y)):
                return "a result is an input's memory"
    # Other values in the same arrays give what they give in others.
    if given and not call.values:
        for values in other_values(call, value_positions(call)):
            for x, value in zip(inputs, values):
                if is_numbers(x):
                    np.copyto(x, value)
            try:
                wanted = results(call, kernel_of(call), values)
            except _REFUSED:
                continue
            if not same(results(call, kernel, inputs), wanted):
                return "it goes by which arrays it gets"
        results(call, kernel, call.fresh_inputs())
    kinds = [weakref.ref(x) for x in given]
    if call.values:
        results(call, kernel, [x.copy() if is_numbers(x) else x for x in inputs])
    else:
        # What it was given last is what it might still have.
        last = call.fresh_inputs()
        kinds += [weakref.ref(x) for x in last if is_numbers(x)]
        results(call, kernel, last)
        del last
    x = y = value = values = None  # type: ignore[assignment]
    del given, inputs, outputs
    return "it still has an input" if any(ref() is not None for ref in kinds) else None


def check_shape_from(call: Call) -> str | None:
    follows = promises_of(call).shape_from
    assert follows is not None
    outputs = results(call, kernel_of(call), call.fresh_inputs())
    if follows.is_first and (len(outputs) != 1 or outputs[0].shape != call.inputs[0].shape):
        return "the result has not the first input's shape"
    wanted = [(y.shape, y.dtype) for y in outputs]
    for values in other_values(call, value_positions(call)):
        try:
            others = results(call, kernel_of(call), values)
        except _REFUSED:
            continue
        if [(y.shape, y.dtype) for y in others] != wanted:
            return f"other values give {[(y.shape, y.dtype) for y in others]} instead of {wanted}"
    return None


def check_of_shapes(call: Call) -> str | None:
    wanted = results(call, kernel_of(call), call.fresh_inputs())
    for values in other_values(call, []):
        if not same(results(call, kernel_of(call), values), wanted):
            return "other values give other results"
    return None


def check_is_total(call: Call) -> str | None:
    for values in other_values(call, value_positions(call)):
        results(call, kernel_of(call), values)
    return None


def check_is_view(call: Call) -> str | None:
    inputs = call.fresh_inputs()
    x = np.ascontiguousarray(inputs[0]).reshape(inputs[0].shape)
    outputs = results(call, kernel_of(call), [x, *inputs[1:]])
    if len(outputs) != 1 or not same([outputs[0].reshape(-1)], [x.reshape(-1)]):
        return "the result is not the input's elements in their order"
    if x.size and not np.shares_memory(outputs[0], x):
        return "the result is in other memory"
    return None


def check_passes(call: Call) -> str | None:
    inputs = call.fresh_inputs()
    outputs = results(call, kernel_of(call), inputs)
    is_kept = len(outputs) == len(inputs) and all(y is x for x, y in zip(inputs, outputs))
    return None if is_kept else "the results are not the inputs"


def check_checks(call: Call) -> str | None:
    if len(call.inputs) != 1:
        return "it has other inputs"
    return check_passes(call)


def check_looks_up(call: Call) -> str | None:
    inputs = call.fresh_inputs()
    table = call.variable(0).read() if call.values else inputs[0]
    before, was_at = table.copy(), table.ctypes.data
    (found,) = results(call, kernel_of(call), inputs)
    items = set(before.reshape(-1).tolist())
    if not items.issuperset(np.asarray(found).reshape(-1).tolist()):
        return "the result is not of the table"
    if not same([table], [before]):
        return "the table was changed"
    if not call.values:
        return None
    del table
    kernel = kernel_of(call)
    results(call, kernel, inputs)
    with call.variable(0).lock:
        call.variable(0).change(lambda array: None)
    return None if call.variable(0).read().ctypes.data == was_at else "it still has the table"


def check_updates_rows(call: Call) -> str | None:
    inputs = call.fresh_inputs()
    target = call.variable(0)
    before, was_at = target.read().copy(), target.read().ctypes.data
    names = [a.name for a in call.build.node.signature.inputs]
    indices = inputs[names.index("indices")]
    results(call, kernel_of(call), inputs)
    after = target.read()
    if after.ctypes.data != was_at and after.size:
        return "the variable's value is in other memory"
    chosen = np.zeros(before.shape, bool)
    if "Nd" in call.build.node.op:
        depth = indices.shape[-1] if indices.ndim > 1 else 1
        rows = indices.reshape(-1, depth)
        # Some that are out of range are ignored.
        rows = rows[((rows >= 0) & (rows < before.shape[:depth])).all(axis=1)]
        chosen[tuple(rows.T)] = True
    else:
        chosen[indices.reshape(-1)] = True
    return None if same([after[~chosen]], [before[~chosen]]) else "other rows were changed"


def same_bits(one: Any, other: Any) -> bool:
    """Whether arrays are the same bit by bit, but for what is not a number."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind not in "fcV":
        return one.tobytes() == other.tobytes()
    kept = one == one
    return np.array_equal(kept, other == other) and one[kept].tobytes() == other[kept].tobytes()


def check_undoes_itself(call: Call) -> str | None:
    if len(call.inputs) != 1:
        return "it has other inputs"
    for values in (call.fresh_inputs(), *other_values(call, [])):
        kernel = kernel_of(call)
        (once,) = results(call, kernel, values)
        (twice,) = results(call, kernel, [once])
        if not same_bits(twice, values[0]):
            return f"twice it gives {twice} of {values[0]}"
    return None


def check_neutral(call: Call) -> str | None:
    kernel = kernel_of(call)
    for at, number in enumerate(promises_of(call).neutral):
        # Numbers of other types than the arrays are not complex where these are.
        if number is None or call.inputs[1 - at].dtype.kind == "c":
            continue
        for values in (call.fresh_inputs(), *other_values(call, [])):
            values[at] = np.array(number, values[1 - at].dtype)
            (result,) = results(call, kernel, values)
            if not same_bits(result, values[1 - at]):
                return f"with {number} at {at} it gives {result} of {values[1 - at]}"
    return None


def check_leaves_state(call: Call) -> str | None:
    inputs = call.fresh_inputs()
    before = state_of(call)
    results(call, kernel_of(call), inputs)
    return None if same(before, state_of(call)) else "the state is another one"


def state_of(call: Call) -> list[Any]:
    """All resources of the call's device, and what is in its variables."""
    resources = call.build.resources
    found: list[Any] = [np.array(names, object) for names in resources.names()]
    found += [np.array(len(resources)), np.array(resources.removals)]
    for position in call.values:
        variable = call.variable(position)
        found += [variable, variable.read().copy(), np.array(variable.read().ctypes.data)]
    return found


# Functions that kernels put checks around -----------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in PROMISING if any(s.alike for s in PROMISING[op])])
def test_functions_behind_checks_give_what_the_kernels_give(op: str) -> None:
    for call in calls_of(op):
        kernel = kernel_of(call)
        function = getattr(kernel, "__wrapped__", None)
        if function is None:
            continue
        try:
            wanted = results(call, kernel, call.fresh_inputs())
        except _REFUSED:
            with pytest.raises(_REFUSED):
                function(*call.fresh_inputs())
            continue
        assert same(as_outputs(function(*call.fresh_inputs())), wanted), call


# Forms that write into arrays -----------------------------------------------------------------------------------------


def form_of(call: Call) -> tuple[Into, list[Any], list[Spec]] | None:
    """The form of the kernel for such a call, with what is known of its inputs and outputs."""
    outputs = results(call, kernel_of(call), call.fresh_inputs())
    inputs = [
        Spec(x.shape, x.dtype) if is_numbers(x) and i not in call.values else None for i, x in enumerate(call.inputs)
    ]
    known = [Spec(y.shape, np.asarray(y).dtype) for y in outputs if isinstance(y, (np.ndarray, np.generic))]
    node = call.build.node
    has_objects = any(t.is_object for t in (*node.input_types, *node.output_types))
    if has_objects and not call.values and node.op not in _SHARING:
        return None
    into = load_makers()[node.op](call.build, inputs, known)
    return None if into is None else (into, inputs, known)


def fill(call: Call, into: Into, inputs: Sequence[Any], known: list[Spec], first: Any = None) -> list[Any]:
    """What the form writes, into arrays that hold something else before; its results where it fills nothing."""
    outs = [np.full(s.shape, 77, s.dtype) for s in known] if into.fills else []
    if first is not None:
        outs[0] = first
    scratch = [np.full(s.shape, 77, s.dtype) for s in into.scratch]
    left = into.call(*inputs, *into.extras, *outs, *scratch)
    return outs if into.fills else list(as_outputs(left))


@pytest.mark.parametrize("op", FORMS)
def test_forms_write_what_the_kernel_gives(op: str) -> None:
    ran = 0
    for call in calls_of(op):
        if not succeeds(call) or call.spec not in kernels_of(op):
            continue
        made = form_of(call)
        if made is None:
            continue
        into, specs, known = made
        inputs = call.fresh_inputs()
        wanted = [*results(call, kernel_of(call), inputs), *held(call)]
        inputs = call.fresh_inputs()
        before = [x.copy() for x in inputs if is_numbers(x)]
        try:
            got = [*fill(call, into, inputs, known), *held(call)]
        except Unfit:
            continue
        ran += 1
        assert close(got, wanted), f"{call}\n{got}\n{wanted}"
        assert same(before, [x for x in inputs if is_numbers(x)]), f"an input was written into: {call}"
        for position in into.in_place if into.fills else ():
            if specs[position] != known[0]:
                continue
            inputs = call.fresh_inputs()
            inputs[position] = np.ascontiguousarray(inputs[position]).reshape(inputs[position].shape)
            assert same(fill(call, into, inputs, known, first=inputs[position]), got), f"in place: {call}"
        if into.by_rows:
            assert same(by_rows(call, into, specs, known), got), f"by rows: {call}"
        if into.formula:
            assert same([by_formula(into, call.fresh_inputs(), known[0])], wanted[:1]), f"{into.formula}: {call}"
        refs = [weakref.ref(x) for x in (*inputs, *got) if is_numbers(x)] if into.fills else []
        del inputs, got, wanted, before
        assert all(ref() is None for ref in refs), f"the form still has an array: {call}"
    assert ran, "no call has put the form to the test"


def held(call: Call) -> list[Any]:
    """The values of the call's variables."""
    return [call.variable(position).read().copy() for position in call.values]


def close(got: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether values are alike but for the order in which they were added up."""
    if len(got) != len(wanted):
        return False
    for a, b in zip(got, wanted):
        if not isinstance(b, (np.ndarray, np.generic)):
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        tolerance = 1e-4 if a.dtype.itemsize == 4 else 1e-9
        if not (np.array_equal(a, b) if a.dtype.kind in "iub" else np.allclose(a, b, tolerance, tolerance, True)):
            return False
    return True


def by_rows(call: Call, into: Into, specs: Sequence[Spec | None], known: list[Spec]) -> list[Any]:
    """What the form gives for one row after the other."""
    from dtfctl.runtime.kernels.into.parallel import stage_of

    stage = stage_of(into, list(specs), known)
    cut = stage.cut
    outs = [np.full(s.shape, 77, s.dtype) for s in known]
    arrays = [*call.fresh_inputs(), *outs, *(np.full(s.shape, 77, s.dtype) for s in into.scratch)]
    if cut is None:
        return fill(call, into, call.fresh_inputs(), known)
    for row in range(stage.output.shape[0]):
        pieces = [a[row : row + 1] if c else a for a, c in zip(arrays, cut)]
        into.call(*pieces[: stage.inputs], *into.extras, *pieces[stage.inputs :])
    return outs


def by_formula(into: Into, inputs: Sequence[Any], output: Spec) -> np.ndarray[Any, Any]:
    """What the formula says, element by element."""
    names = [f"x{i}" for i in range(len(inputs))]
    code = compile(into.formula.format(*names), "formula", "eval")
    whole = [np.broadcast_to(x, output.shape).reshape(-1) for x in inputs]
    out = np.empty(int(np.prod(output.shape)), output.dtype)
    numbers = {"np": np, "zero": output.dtype.type(0), "one": output.dtype.type(1)}
    for i in range(out.size):
        out[i] = eval(code, {**numbers, **{name: x[i] for name, x in zip(names, whole)}})
    return out.reshape(output.shape)
