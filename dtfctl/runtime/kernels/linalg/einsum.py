"""Einsum: Einstein summation with ellipses, repeated labels and broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision
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
            out = k.xp.einsum(equation, *work, optimize="optimal" if len(work) > 1 else False)
        except ValueError as e:
            raise InvalidArgumentError(f"Einsum: {e}") from None
        if repeated:
            out = _inflate(k.xp, out, distinct, output)
        return out.astype(dtype, copy=False)

    return kernel


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
