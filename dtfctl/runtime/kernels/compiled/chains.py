"""Chains of operations element by element as one compiled loop, written for each chain and kept like other loops.

Only operations that numpy and the processor round alike are in such loops, so that values are those of numpy's passes.
numpy's functions for exponentials and the like are faster than what a compiled loop would call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.compiled.jit import jitted
from dtfctl.runtime.kernels.into.parallel import Stage, in_parts
from dtfctl.runtime.kernels.into.registry import Into, Spec

# Smaller work by several cores is not worth waking them: a loop goes through this in 0.2 ms.
_LEAST_BYTES_SHARED = 8 << 20
# Results of as many bytes are written past the caches: with an operand as large there is no room for them anyway.
LEAST_BYTES_STREAMED = 12 << 20
# How much of a result is made before it is streamed; with more than that reading and writing take turns.
_TILE_BYTES = 512
# How an operand is indexed: as large as the result, along its last dimension only, or a single number.
_WHOLE, _ROW, _NUMBER = "whole", "row", "number"


@dataclass(frozen=True)
class Link:
    """One operation of a chain.

    Attributes:
        formula: what it gives, in Python; {0}, {1} stand for its operands, `zero` and `one` for numbers of the type.
        operands: positions among the chain's operands, or (n,) for what link n gives.
        kept: whether somebody besides the chain wants what it gives.
    """

    formula: str
    operands: tuple[int | tuple[int], ...]
    kept: bool


def chain(links: Sequence[Link], operands: Sequence[Spec | None], output: Spec) -> Into | None:
    """Make a chain one call of its operands, which fills what is kept; None where shapes or types do not allow it.

    Args:
        output: what every link gives.
    """
    kinds = [_kind(spec, output) for spec in operands]
    if None in kinds or output.dtype not in (np.float32, np.float64) or not output.shape or 0 in output.shape:
        return None
    known = tuple(kinds)
    whole = tuple(n for n, kind in enumerate(known) if kind == _WHOLE)
    elsewhere = _call(tuple(links), known, list(operands), output, None) if whole else None
    if elsewhere is None:
        return None
    forms: dict[int, Callable[..., None]] = {}

    def form(reused: int) -> Callable[..., None]:
        """Compile the call where the first output is the operand at position `reused`."""
        found = forms.get(reused)
        if found is None:
            found = _call(tuple(links), known, list(operands), output, reused)
            assert found is not None, "numba was there for the other form"
            forms[reused] = found
        return found

    def call(*arrays: Any) -> None:
        first = arrays[len(known)]
        for n in whole:
            if arrays[n] is first:
                form(n)(*arrays[: len(known)], *arrays[len(known) + 1 :])
                return
        elsewhere(*arrays)

    return Into(call, in_place=whole)


def streams(operands: Sequence[Spec | None], output: Spec) -> bool:
    """Tell whether a loop writes the result past the caches, and so is worth it even for a single operation."""
    kinds = [_kind(spec, output) for spec in operands]
    return output.nbytes >= LEAST_BYTES_STREAMED and _WHOLE in kinds and not {None, _ROW}.intersection(kinds)


def _kind(spec: Spec | None, output: Spec) -> str | None:
    if spec is None or spec.dtype != output.dtype:
        return None
    if spec.shape == output.shape:
        return _WHOLE
    if int(np.prod(spec.shape)) == 1:
        return _NUMBER
    lead = spec.shape[:-1]
    return _ROW if spec.shape[-1:] == output.shape[-1:] and all(n == 1 for n in lead) else None


def _call(
    links: tuple[Link, ...], kinds: tuple[Any, ...], operands: list[Any], output: Spec, reused: int | None
) -> Callable[..., None] | None:
    tile = _TILE_BYTES // output.dtype.itemsize if reused is None and streams(operands, output) else 0
    loop = jitted(_source(links, kinds, reused, tile))
    if loop is None:
        return None
    columns = output.shape[-1] if _ROW in kinds else 0
    zero, one = output.dtype.type(0), output.dtype.type(1)

    outputs = sum(link.kept for link in links) - (reused is not None)

    def run(*arrays: Any) -> None:
        given = [_as_wanted(a, kind, columns) for a, kind in zip(arrays, kinds)]
        tiles = [np.empty(tile, output.dtype) for _ in range(outputs if tile else 0)]
        loop(zero, one, *given, *(_flat(a, columns) for a in arrays[len(kinds) :]), *tiles)

    if output.nbytes < _LEAST_BYTES_SHARED:
        return run
    stage = Stage(run, (), [*operands, *[output] * outputs], len(operands), output)
    return in_parts([stage]) or run


def _as_wanted(array: Any, kind: str, columns: int) -> Any:
    if kind == _NUMBER:
        return array.reshape(-1)[0]
    return np.ascontiguousarray(array).reshape(-1) if kind == _ROW else _flat(np.ascontiguousarray(array), columns)


def _flat(array: Any, columns: int) -> Any:
    """View an array as a vector, or as rows where operands differ along them."""
    return array.reshape(-1, columns) if columns else array.reshape(-1)


def _source(links: tuple[Link, ...], kinds: tuple[Any, ...], reused: int | None, tile: int = 0) -> str:
    """Write the loop: reads, formulas, then what is kept, so that it may be where operands were.

    Args:
        tile: how many elements are made before they are streamed; 0 to store them at once. Streamed are results that
            are where no operand was, and whose operands do not differ along rows.
    """
    rows = _ROW in kinds
    at = {_WHOLE: "[i, j]" if rows else "[i]", _ROW: "[j]", _NUMBER: ""}
    outputs = [f"o{n}" for n, link in enumerate(links) if link.kept]
    targets = list(outputs)
    if reused is not None:
        targets[0] = f"a{reused}"
    arguments = [
        "zero",
        "one",
        *(f"a{n}" for n in range(len(kinds))),
        *(outputs[1:] if reused is not None else outputs),
        *(f"{name}_tile" for name in (outputs if tile else ())),
    ]
    lines = []
    for n, link in enumerate(links):
        values = [f"t{o[0]}" if isinstance(o, tuple) else f"a{o}{at[kinds[o]]}" for o in link.operands]
        names = [f"x{n}_{p}" for p in range(len(values))]
        lines += [f"{name} = {value}" for name, value in zip(names, values)]
        lines.append(f"t{n} = {link.formula.format(*names)}")
    kept = [n for n, link in enumerate(links) if link.kept]
    lines += [f"{target}{at[_WHOLE]} = t{n}" for n, target in zip(kept, targets)]
    whole = [f"a{n}" for n, kind in enumerate(kinds) if kind == _WHOLE]
    head = f"def chain({', '.join(arguments)}):"
    if tile:
        return "\n".join([head, *_indented(_tiled(lines, whole, outputs, tile)), ""])
    loop = _indented(["for j in range(" + whole[0] + ".shape[1]):", *_indented(lines)] if rows else lines)
    return "\n".join([head, *_indented([f"for i in range({whole[0]}.shape[0]):", *loop]), ""])


def _tiled(lines: list[str], whole: list[str], outputs: list[str], tile: int) -> list[str]:
    """Write the loop in tiles that end where lines of the first result do; others are alike, or copied plainly."""
    return [
        *(f"{name}_all = {name}" for name in (*whole, *outputs)),
        *(f"{name} = {name}_tile" for name in outputs),
        f"size = {whole[0]}_all.shape[0]",
        "start = 0",
        f"stop = min(ahead({outputs[0]}_all), size)",
        "while start < size:",
        *_indented([f"{name} = {name}_all[start:stop]" for name in whole]),
        *_indented(["for i in range(stop - start):", *_indented(lines)]),
        *_indented([f"stream({name}, {name}_all[start:stop])" for name in outputs]),
        *_indented(["start = stop", f"stop = min(start + {tile}, size)"]),
        "fence()",
    ]


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
