"""Einsum: Einstein summation with ellipses, repeated labels and broadcasting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision
from dtfctl.runtime.kernels.into.products import multiply_stacks
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


def _parse(equation: str, count: int) -> tuple[list[str], str]:
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow:
        raise InvalidArgumentError(f"Expecting exactly one '->' in einsum equation: {equation}")
    inputs = left.split(",")
    if len(inputs) != count:
        raise InvalidArgumentError(f"Expected {len(inputs)} inputs but got: {count}")
    for part in (*inputs, right):
        bare = part.replace("...", "", 1)
        if not all(c.isalpha() for c in bare):
            raise InvalidArgumentError(f"Invalid character(s) in einsum equation: {part}")
    return inputs, right


@register_kernel("Einsum", devices=CPU_GPU)
def _einsum(k: KernelBuild) -> Kernel:
    inputs, output = _parse(k.text_attr("equation"), int(k.attr("N")))
    if len(inputs) > 2:
        raise InvalidArgumentError(
            f"Expecting 1 or 2 input subscripts in equation '{k.text_attr('equation')}' but got: {len(inputs)}",
            k.node.name,
        )
    known = set("".join(inputs))
    for label in output.replace("...", ""):
        if label not in known:
            raise InvalidArgumentError(f"Einsum: output label {label!r} does not appear in any input", k.node.name)
    bare = output.replace("...", "")
    distinct = "".join(dict.fromkeys(bare))
    repeated = distinct != bare
    core = output
    if repeated:
        core = ("..." if "..." in output else "") + distinct
    equation = f"{','.join(inputs)}->{core}"
    low = is_low_precision(k.dtype("T").np)
    dtype = k.dtype("T").np

    def kernel(*xs: Any) -> Any:
        for labels, x in zip(inputs, xs):
            n = len(labels.replace("...", ""))
            if ("..." in labels and x.ndim < n) or ("..." not in labels and x.ndim != n):
                raise InvalidArgumentError(
                    f"Expected input to have rank {'at least ' if '...' in labels else ''}{n} but got: {x.ndim}"
                )
        work = [x.astype(np.float32) for x in xs] if low else list(xs)
        if "..." not in output:
            spare = max((x.ndim - len(i.replace("...", "")) for i, x in zip(inputs, xs)), default=0)
            if spare > 0:
                raise InvalidArgumentError(
                    f"Output contains {spare} broadcasting dimension(s) but no ellipsis (...) was found in the output "
                    "subscripts."
                )
        try:
            out = _product(k.xp, work, inputs, core) if len(work) > 1 else k.xp.einsum(equation, work[0])
        except ValueError as e:
            raise InvalidArgumentError(f"Einsum: {e}") from None
        if repeated:
            out = _inflate(k.xp, out, distinct, output)
        return out.astype(dtype, copy=False)

    return kernel


Label = str | int
"""Label of an axis: a letter, or how far an axis that an ellipsis stands for is from the ellipsis' end."""


def _labels(text: str, rank: int) -> list[Label]:
    head, dots, tail = text.partition("...")
    spread = range(rank - len(head) - len(tail), 0, -1) if dots else ()
    return [*head, *spread, *tail]


def _product(xp: Any, xs: list[Any], inputs: list[str], output: str) -> Any:
    """Multiply two operands as one matrix product, of a batch of matrices where axes of both are kept."""
    named = [_labels(text, x.ndim) for text, x in zip(inputs, xs)]
    spread = {label: 0 for labels in named for label in labels if isinstance(label, int)}
    head, dots, tail = output.partition("...")
    out: list[Label] = [*head, *(sorted(spread, reverse=True) if dots else ()), *tail]
    (a, left), (b, right) = (
        _reduced(xp, x, labels, {*out, *other}) for x, labels, other in zip(xs, named, reversed(named))
    )
    sizes = [dict(zip(left, a.shape)), dict(zip(right, b.shape))]
    shared = [label for label in left if label in sizes[1]]
    for label in shared:
        if isinstance(label, str) and sizes[0][label] != sizes[1][label]:
            raise InvalidArgumentError(
                f"Expected dimension {sizes[0][label]} at axis {right.index(label)} of the input shaped "
                f"{list(b.shape)} but got dimension {sizes[1][label]}"
            )
    batch = [label for label in out if label in shared]
    inner = [label for label in shared if label not in batch]
    mine, others = ([label for label in labels if label not in shared] for labels in (left, right))

    def arranged(x: Any, labels: list[Label], *groups: list[Label]) -> Any:
        x = x.transpose([labels.index(label) for group in (batch, *groups) for label in group])
        lengths = [math.prod(x.shape[start : start + len(group)]) for start, group in _starts(batch, *groups)]
        return x.reshape((*x.shape[: len(batch)], *lengths))

    a, b = arranged(a, left, mine, inner), arranged(b, right, inner, others)
    product = (multiply_stacks if xp is np else xp.matmul)(a, b) if inner else a * b
    lengths = [size[label] for size, group in zip(sizes, (mine, others)) for label in group]
    product = product.reshape((*product.shape[: len(batch)], *lengths))
    held = [*batch, *mine, *others]
    return product.transpose([held.index(label) for label in out])


def _starts(first: list[Label], *groups: list[Label]) -> Iterator[tuple[int, list[Label]]]:
    at = len(first)
    for group in groups:
        yield at, group
        at += len(group)


def _reduced(xp: Any, x: Any, labels: list[Label], wanted: set[Label]) -> tuple[Any, list[Label]]:
    """Take the diagonals that repeated labels mean, and the sums over axes that nothing else names."""
    kept = [label for label in dict.fromkeys(labels) if label in wanted]
    if kept == labels:
        return x, labels
    numbers = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return xp.einsum(x, [numbers[label] for label in labels], [numbers[label] for label in kept]), kept


def _inflate(xp: Any, x: Any, distinct: str, output: str) -> Any:
    """Spread x over the diagonals that repeated output labels mean."""
    head, dots, tail = output.partition("...")
    extra = x.ndim - len(distinct)
    names: list[Any] = list(head) + ([("...", i) for i in range(extra)] if dots else []) + list(tail)
    held: list[Any] = ([("...", i) for i in range(extra)] if dots else []) + list(distinct)
    sizes = dict(zip(held, x.shape))
    out = xp.zeros([sizes[n] for n in names], x.dtype)
    grids = dict(zip(held, xp.meshgrid(*(xp.arange(sizes[n]) for n in held), indexing="ij")))
    out[tuple(grids[n] for n in names)] = x
    return out
