"""Products of matrices by a library's general routine as steps of tapes (tape.py), one or a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.tape import Part, Pool, Step, described, divided

Sizes = tuple[int, int, int]
"""Rows of a product, inner dimension and columns."""


@dataclass(frozen=True)
class Matrices:
    """Products that a step makes, one of each of a stack.

    Attributes:
        sizes: of each product. ta, tb: whether its factors are transposed.
        specs: the arrays that the step gets; the last one gets the products.
        places: which of them the factors are in.
        count: how many products there are.
    """

    sizes: Sizes
    ta: bool
    tb: bool
    specs: Sequence[Spec]
    places: tuple[int, int] = (0, 1)
    count: int = 1

    def step(
        self,
        code: Image,
        name: str,
        head: Sequence[int],
        pool: Pool | None,
        held: Any,
        made_by: Mapping[int, Callable[[Any], Any]] | None = None,
    ) -> Step:
        """Make them a step.

        Args:
            name: of the function of tapes' code that calls the routine; head: its first words.
        """
        entry, memory = machine.entry(code, name)
        part = partial(self._part, entry, list(head), memory)
        whole = part(range(self.count), range(self.sizes[0]))
        last = len(self.specs) - 1
        return Step(
            entry, whole.words, self.specs, last, made_by or {}, pool, partial(self._cut, part), (held, whole.held)
        )

    def _cut(self, part: Callable[[range, range], Part], count: int) -> list[list[Part]]:
        """Cut a stack into stacks, and a product into parts of its rows."""
        rows = range(self.sizes[0])
        if self.count > 1:
            return [[part(range(*bounds), rows) for bounds in divided(self.count, count)]]
        return [[part(range(1), range(*bounds)) for bounds in divided(len(rows), count)]]

    def _part(self, entry: int, head: list[int], memory: Any, stack: range, rows: range) -> Part:
        _, inner, columns = self.sizes
        last = len(self.specs) - 1
        places = (*self.places, last)
        sizes = [spec.nbytes // self.count for spec in (self.specs[n] for n in places)]
        # Where the part's rows begin within a matrix, and where they end.
        within = [self._rows_of(sizes[0], rows, self.ta), (0, sizes[1]), self._rows_of(sizes[2], rows, False)]
        begins = [size * stack.start + first for size, (first, _) in zip(sizes, within)]
        skipped = self.specs[last].dtype.itemsize * rows.start
        if self.ta:
            # Its columns are the product's rows.
            begins[0] += skipped
        lda, ldb = (self.sizes[0] if self.ta else inner), (inner if self.tb else columns)
        own = [*head, len(rows), columns, inner, lda, ldb, len(stack), *places, *begins, *sizes]
        words = machine.table_of(machine.numbers_of(own, described(self.specs, 1)))
        touched = [
            (n, size * stack.start + first, size * (stack.stop - 1) + end, n == last)
            for n, size, (first, end) in zip(places, sizes, within)
        ]
        share = len(stack) * len(rows) / (self.count * self.sizes[0])
        return Part(entry, words, share, touched, memory)

    def _rows_of(self, nbytes: int, rows: range, is_transposed: bool) -> tuple[int, int]:
        """Tell which bytes of a matrix some of the product's rows are of, or follow from."""
        if is_transposed:
            return 0, nbytes
        return nbytes * rows.start // self.sizes[0], nbytes * rows.stop // self.sizes[0]
