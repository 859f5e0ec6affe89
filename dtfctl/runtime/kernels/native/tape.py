"""Calls of machine code one after the other, without the interpreter in between.

A step of a tape is a region (code.py), or a product by oneDNN: a function that gets arrays as they are, and refuses
those that are others than it was made for. A tape runs its steps in one call, by the calling thread, and lets other
threads have the interpreter meanwhile. Arrays that are the same in each call stand in it; those that are not are its
arguments, and are looked at before the first step: a tape has happened, or nothing has.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dtfctl.cores import granted
from dtfctl.runtime.framework.errors import InternalError
from dtfctl.runtime.kernels.into.registry import Spec, Unfit
from dtfctl.runtime.kernels.into.threads import threaded
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.compiler import COMPILER
from dtfctl.runtime.kernels.native.crew import crew
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.kept import Compiled
from dtfctl.runtime.kernels.native.lanes import AFTER, LEAST, LEAST_S, STEP_WORDS, Job, Lanes, Memory, divide

_WORD = 8
# Runs by which it becomes known how long steps take: of tapes that take so long, in seconds, fewer will do.
_RUNS, _FEW_RUNS, _LONG_S = 8, 2, 2e-3
_NEVER = 2**62
# Steps that take as long are cut into parts of their rows, one for each lane, and more where these take longer than so
# long; longer than arrays are.
_CUT_S, _PART_S, _MOST_PARTS, _FAR = 5e-6, 0.5e-3, 4, 1 << 40
clock = time.perf_counter


class Pool(NamedTuple):
    """Threads of a library, of which it uses none while a tape runs.

    Attributes:
        set_threads: the address of the function that sets how many it uses; threads: how many those are otherwise.
        is_threads_own: whether that holds for calls of the thread that has set it only.
    """

    set_threads: int
    threads: int
    is_threads_own: bool


@dataclass(frozen=True)
class Part:
    """Some rows of a step.

    Attributes:
        entry, words: as of a step; it gets the same arrays.
        share: of the step's time.
        touched: what it does to memory: which array, from where to where, and whether it is written; with -1 for the
            array, at which addresses.
    """

    entry: int
    words: Any
    share: float
    touched: Sequence[tuple[int, int, int, bool]]
    held: Any = None


@dataclass(frozen=True)
class Step:
    """One call of machine code.

    Attributes:
        entry: the address of its function; words: the table it gets.
        specs: the arrays it gets, in order, as far as it is known what they are; reads: how many of them it only reads.
        made_by: makes arrays of what a step gets that is none, by position; it raises `Unfit` where it cannot.
        pool: what its library would use besides the caller's thread; None where that is nothing.
        cut: makes parts of it, so many where they need nothing of each other, in the order in which they are run; none
            where it cannot be cut.
        held: what has to be there as long as the step is.
        has_room: whether its last array is touched: a region that needs no room gets one byte.
    """

    entry: int
    words: Any
    specs: Sequence[Spec]
    reads: int
    made_by: Mapping[int, Callable[[Any], Any]] = field(default_factory=dict)
    pool: Pool | None = None
    cut: Callable[[int], Sequence[Sequence[Part]]] | None = None
    held: Any = None
    has_room: bool = True


@dataclass(frozen=True)
class TapeOrder:
    """What the code of tapes is compiled from: nothing but its own rules."""

    text: str = '{"tape": true}'

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:40]


ORDER = TapeOrder()
"""The order of the code that runs tapes, for `COMPILER`."""


def image() -> Image | None:
    """Return the code that runs tapes; None where it cannot be compiled.

    Raises:
        KeyError: it was not compiled yet.
    """
    made = COMPILER.find(ORDER)
    return None if made is None else made.image


def step_of(made: Compiled, operands: Sequence[Spec]) -> Step | None:
    """Make a region a step of its operands, outputs and scratch memory; None where it may refuse what is in them.

    Raises:
        OSError: the system lets nobody run what they have written.
    """
    if "bare" not in made.image.entries:
        return None
    entry, held = machine.entry(made.image, "bare")
    words = machine.table_of(made.numbers)
    cut = partial(_cut, made, words)
    return Step(entry, words, operands, len(operands), cut=cut, held=held, has_room=made.scratch > 0)


def _cut(made: Compiled, words: Any, count: int) -> list[list[Part]]:
    """Cut the phases of a region."""
    entry, held = machine.entry(made.image, "rows")
    total = max(sum(phase.nbytes for phase in made.phases), 1)
    found = []
    for n, phase in enumerate(made.phases):
        parts = []
        for first, end in divided(phase.blocks, count):
            touched = [
                (
                    t.array,
                    t.begin + (t.nbytes * first // phase.blocks if t.by_rows else 0),
                    t.begin + (t.nbytes * end // phase.blocks if t.by_rows else t.nbytes),
                    t.is_written,
                )
                for t in phase.touched
            ]
            share = phase.nbytes / total * (end - first) / phase.blocks
            at = np.array([words.ctypes.data, n, first, end], np.int64)
            parts.append(Part(entry, at, share, touched, (held, words)))
        found.append(parts)
    return found


def described(specs: Sequence[Spec], outputs: int) -> list[int]:
    """Describe arrays for a step's table, of which the last `outputs` are written."""
    words: list[int] = []
    for n, spec in enumerate(specs):
        flags = machine.CONTIGUOUS | (machine.WRITABLE if n >= len(specs) - outputs else 0)
        kind = machine.TYPES.index(spec.dtype.str[1:])
        words += [machine.DTYPES + kind, flags, len(spec.shape), *spec.shape]
    return words


def rows_of(
    rows: int,
    count: int,
    specs: Sequence[Spec],
    is_transposed: bool,
    make: Callable[[int, int], tuple[int, Any, Any]],
) -> list[Part]:
    """Cut a product into parts of its rows.

    Args:
        count: of parts.
        specs: its factors, what is added to its rows if anything is, and itself.
        is_transposed: whether the first factor is: then each part reads all of it.
        make: of the first row and the end of a part its entry, words, and what is to be held.
    """
    last = len(specs) - 1
    by_rows = {last} if is_transposed else {0, last}
    parts = []
    for first, end in divided(rows, count):
        entry, words, held = make(first, end)
        ranges = [(first, end) if n in by_rows else (0, rows) for n in range(len(specs))]
        touched = [
            (n, spec.nbytes * low // rows, spec.nbytes * high // rows, n == last)
            for n, (spec, (low, high)) in enumerate(zip(specs, ranges))
        ]
        parts.append(Part(entry, words, (end - first) / rows, touched, held))
    return parts


def divided(rows: int, count: int) -> list[tuple[int, int]]:
    """Divide rows into parts, as long as each other but for one row."""
    count = max(min(count, rows), 1)
    ends = [rows * n // count for n in range(count + 1)]
    return list(pairwise(ends))


@lru_cache(4)
def _loaded(image: Image) -> Any:
    return machine.entry(image, "tape")


class Tape:
    """Steps, run by one call of what is other in each of them.

    Once it is known how long they take, they are run by two threads where that takes less (lanes.py, threads.py).

    Args:
        steps: with the arrays of each: an array, or the number of an argument.
    """

    def __init__(self, steps: Sequence[tuple[Step, Sequence[Any]]], code: Image) -> None:
        self._code = code
        self._sources: list[tuple[int, Callable[[Any], Any] | None]] = []
        self._specs: list[Spec | None] = []
        # Arguments that were no contiguous arrays.
        self._differing: set[int] = set()
        self._steps = self._with_numbers(steps)
        pools = {step.pool.set_threads: step.pool for step, _ in steps if step.pool is not None}
        assert len(pools) <= machine.TAPE_POOLS, "no more libraries are known"
        self._pools = list(pools.values())
        self._table, self._held = self._laid_out()
        self._run = self._alone = self._made()
        # Runs until it is known how long steps take; the least that all of them took.
        self._unknown = _RUNS if granted() > 1 else 0
        self._least = math.inf

    def _with_numbers(self, steps: Sequence[tuple[Step, Sequence[Any]]]) -> list[tuple[Step, list[Any]]]:
        """Number what is made of arguments: what several steps want is made once."""
        numbers: dict[tuple[int, Any], int] = {}
        found = []
        for step, arrays in steps:
            given = list(arrays)
            for position, array in enumerate(arrays):
                if isinstance(array, int):
                    make = step.made_by.get(position)
                    given[position] = numbers.setdefault((array, make), len(numbers))
                    if len(self._sources) < len(numbers):
                        self._sources.append((array, make))
                        is_array = make is None and position < len(step.specs)
                        self._specs.append(step.specs[position] if is_array else None)
            found.append((step, given))
        return found

    def _laid_out(self) -> tuple[Any, list[Any]]:
        """Lay out what the code reads: a table of the steps, and what has to be held besides."""
        count = sum(len(arrays) for _, arrays in self._steps)
        arguments = np.zeros(count, np.int64)
        table = np.zeros((len(self._steps), STEP_WORDS), np.int64)
        table[:, LEAST] = _NEVER
        begin = arguments.ctypes.data
        patches: list[tuple[int, int]] = []
        looks: list[int] = []
        at = 0
        for n, (step, arrays) in enumerate(self._steps):
            table[n, :AFTER] = step.entry, step.words.ctypes.data, begin + at * _WORD, len(arrays)
            for array in arrays:
                if isinstance(array, int):
                    patches.append((begin + at * _WORD, array))
                    looks += [n] if n not in looks[-1:] else []
                else:
                    arguments[at] = id(array)
                at += 1
        places = np.array(patches, np.int64).reshape(-1, 2)
        room = np.zeros(max(len(arrays) for _, arrays in self._steps), np.int64)
        return table, [arguments, places, table[looks], room]

    def _made(self, lanes: Lanes | None = None, parts: Sequence[tuple[int, Part]] = ()) -> Callable[..., Any]:
        """Make the call that runs the steps: by the caller, or parts of them in lanes."""
        _, places, looked, room = self._held
        in_lanes = [0, 0]
        held: list[Any] = [self._held, self._steps]
        if lanes is not None:
            rate = self._table[:, LEAST].sum() / self._least
            set_threads = next((pool.set_threads for pool in self._pools if pool.is_threads_own), 0)
            job, workers = Job(self._table_of(parts), lanes, set_threads, rate), crew(self._code, rate)
            workers.keep(self, job)
            in_lanes = [workers.words.ctypes.data, job.address]
            held += [list(parts), job, workers]
        pools = self._pools + [Pool(0, 0, False)] * (machine.TAPE_POOLS - len(self._pools))
        own = [
            *(len(self._sources), places.ctypes.data, len(places)),
            *(looked.ctypes.data, len(looked), room.ctypes.data),
            *(self._table.ctypes.data, len(self._table), id(None)),
            *(x for pool in pools for x in pool[:2]),
            *in_lanes,
        ]
        entry, memory = _loaded(self._code)
        return machine.built_in(entry, machine.numbers_of(own, []), (memory, self._table, held))

    def _learn(self, taken: float) -> None:
        """Note how long a run has taken, and divide the steps among lanes once that is known."""
        self._least = min(self._least, taken)
        self._unknown -= 1
        if self._unknown > (_RUNS - _FEW_RUNS if self._least >= _LONG_S else 0):
            return
        self._unknown = 0
        cycles = self._table[:, LEAST]
        costs = cycles * (self._least / max(cycles.sum(), 1))
        if self._least < LEAST_S:
            return
        count = granted()
        parts, groups = self._parts(costs, count)
        memories = [_memories(part, self._steps[n][1]) for n, part in parts]
        lanes = divide(memories, [float(costs[n]) * part.share for n, part in parts], count, groups)
        if lanes is not None:
            together = self._made(lanes, parts)
            is_long = lanes.takes >= _LONG_S
            self._run = threaded(together, self._alone, count, claimed=together, stays_awake=is_long)

    def _parts(self, costs: Any, lanes: int) -> tuple[list[tuple[int, Part]], list[int]]:
        """Cut the steps for so many lanes: each part with the number of its step, and of what it needs nothing of."""
        parts: list[tuple[int, Part]] = []
        groups: list[int] = []
        for n, (step, arrays) in enumerate(self._steps):
            count = lanes * min(max(int(costs[n] / lanes / _PART_S), 1), _MOST_PARTS)
            if costs[n] < _CUT_S * count:
                count = max(int(costs[n] / _CUT_S), 2)
            cut = step.cut(count) if step.cut is not None and costs[n] >= _CUT_S else []
            for together in cut or [[_whole(step, arrays)]]:
                parts += [(n, part) for part in together]
                groups += [len(groups)] * len(together)
        return parts, groups

    def _table_of(self, parts: Sequence[tuple[int, Part]]) -> Any:
        """Make the table of some parts, which get what their steps get."""
        table = self._table[[n for n, _ in parts]]
        for row, (_, part) in zip(table, parts):
            row[:2] = part.entry, part.words.ctypes.data
        return table

    def __call__(self, *values: Any) -> None:
        """Run the steps.

        Raises:
            Unfit: an argument is not what a step was made for; none was run.
            InternalError: a library has refused what it was made for.
        """
        given = [values[n] if make is None else make(values[n]) for n, make in self._sources]
        for n in self._differing:
            given[n] = self._fitting(given[n], self._specs[n])
        began = clock() if self._unknown else 0.0
        ran = self._run(*given)
        if ran and self._unknown:
            self._learn(clock() - began)
        if not ran and ran is not None:
            for n, spec in enumerate(self._specs):
                fitting = self._fitting(given[n], spec)
                if fitting is not given[n]:
                    # Mostly it will be so again.
                    self._differing.add(n)
                    given[n] = fitting
            ran = self._run(*given)
        if ran is None:
            raise InternalError("a step by a library has failed. Set DTF_NATIVE=0 to do without tapes.")
        if not ran:
            raise Unfit

    @staticmethod
    def _fitting(value: Any, spec: Spec | None) -> Any:
        """Make an argument a contiguous array, if it is none; `spec` is what it is an array of, where that is known."""
        if spec is None:
            return value
        if getattr(value, "dtype", None) != spec.dtype or value.shape != spec.shape:
            raise Unfit
        fitting = np.ascontiguousarray(value)
        return value if fitting is value else fitting.reshape(spec.shape)


def _whole(step: Step, arrays: Sequence[Any]) -> Part:
    used = arrays if step.has_room else arrays[:-1]
    touched = [(n, 0, _nbytes(array), n >= step.reads) for n, array in enumerate(used)]
    return Part(step.entry, step.words, 1.0, touched, step)


def _nbytes(array: Any) -> int:
    # How long arguments are is not known here.
    return _FAR if isinstance(array, int) else int(array.nbytes)


def _memories(part: Part, arrays: Sequence[Any]) -> list[Memory]:
    """List what a part does to memory. What arguments are in is nothing else's that a tape writes to."""
    found = []
    for n, begin, end, is_written in part.touched:
        array = arrays[n] if n >= 0 else None
        if array is None:
            at = 0
        elif isinstance(array, int):
            at = -(array + 1) * _FAR
        else:
            at = array.__array_interface__["data"][0]
        found.append(Memory(at + begin, at + end, is_written))
    return found
