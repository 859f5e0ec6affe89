"""One code for texts of LLVM's that differ in numbers only: the same region for other lengths, or another batch.

The first text of its kind is compiled as it is, which makes the fastest code. A later one that differs from one before
in nothing but numbers has those that differ read from the table which the code gets (machine.py); all of that kind that
come after it and differ in the same places need no compiling. Nothing is assumed about what a number stands for: a text
is only taken for one of a kind if filling its numbers in gives that text.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dtfctl.runtime.kernels.native import machine

T = TypeVar("T")

# Instructions whose numbers may be values that are known later only.
_MAY = re.compile(
    r'  (?:%"[^"]*" = )?(?:add|sub|mul|[us]div|[us]rem|shl|[la]shr|and|or|xor|icmp|fadd|fsub|fmul|fdiv|fcmp|phi|select|'
    "getelementptr|call|store)(?= )"
)
_KINDS = frozenset(["i32", "i64", "float", "double"])
# A type, or a number as an operand, with its type where that is said just before it.
_TYPE = r"\b(i1|i8|i32|i64|float|double|ptr)"
_NUMBER = re.compile(rf"(?:{_TYPE} )?(?<=[ \[])(-?\d+|0x[0-9a-fA-F]+)(?=[,)\]]|$)|{_TYPE}\b")
_FUNCTION = re.compile(r'^define (internal )?(.*@"([^"]*)"\()(.*)$', re.MULTILINE)
_CALLED = re.compile(r'@"([^"]*)"\(')
# It compares arrays with the table itself, and gets that.
_FITS = "fits"
# They get the words of the table where others get the table, or where those are.
_BARE, _ROWS = "bare", "rows"
# Kinds of texts, and texts and codes of each, that are remembered.
_MOST_KINDS, _MOST_OF_A_KIND = 1024, 16


@dataclass(frozen=True)
class Parsed:
    """A text without its numbers.

    Attributes:
        pieces: what is between the numbers; kinds, values: the numbers' types, and what they are.
    """

    pieces: Sequence[str]
    kinds: Sequence[str]
    values: Sequence[str]

    @classmethod
    def of(cls, text: str) -> Parsed:
        pieces, kinds, values = [], [], []
        begin = place = 0
        for line in text.splitlines(keepends=True):
            told = _MAY.match(line)
            kind = ""
            for found in _NUMBER.finditer(line, told.end()) if told is not None else ():
                kind = found[1] or found[3] or kind
                if found[2] is not None and kind in _KINDS:
                    pieces.append(text[begin : place + found.start(2)])
                    kinds.append(kind)
                    values.append(found[2])
                    begin = place + found.end(2)
            place += len(line)
        return cls([*pieces, text[begin:]], kinds, values)

    @property
    def kind(self) -> str:
        """Say what it has in common with texts that differ in numbers only."""
        return hashlib.sha256("\0".join([*self.kinds, *self.pieces]).encode()).hexdigest()


@dataclass
class _One(Generic[T]):
    """A code for texts of a kind.

    Attributes:
        values: the numbers of one of the texts; places: which of them are read from the table, and where.
        made: the code; batch: of those that it was asked for with.
    """

    values: Sequence[str]
    places: Mapping[int, int]
    made: T
    batch: int

    def numbers(self, parsed: Parsed) -> list[int] | None:
        """Return what it finds in its table for a text; None where it is not for that one."""
        table: dict[int, str] = {}
        for n, value in enumerate(parsed.values):
            at = self.places.get(n)
            if (self.values[n] if at is None else table.setdefault(at, value)) != value:
                return None
        kinds = {at: parsed.kinds[n] for n, at in self.places.items()}
        return [_as_word(kinds[at], table[at]) for at in range(len(table))]

    def distance(self, values: Sequence[str]) -> int:
        return sum(x != y for x, y in zip(self.values, values))


class Generics(Generic[T]):
    """Codes of texts, and which texts they are for.

    Args:
        compile: makes code of a text.

            Raises:
                RuntimeError: it cannot.
    """

    def __init__(self, compile: Callable[[str], T]) -> None:
        self._compile = compile
        self._kinds: OrderedDict[str, list[_One[T]]] = OrderedDict()
        self._batch = 0

    def begin(self) -> None:
        """Begin another plan: texts of one are each compiled as they are, also where they differ in numbers only."""
        self._batch += 1

    def code(self, text: str) -> tuple[T, list[int]]:
        """Return the code for a text, and what it finds in its table.

        Raises:
            RuntimeError: it cannot be compiled.
        """
        parsed = Parsed.of(text)
        known = self._known(parsed.kind)
        for one in known:
            numbers = one.numbers(parsed)
            if numbers is not None:
                return one.made, numbers
        others = [one for one in known if one.batch != self._batch]
        made, places = None, {}
        if others:
            nearest = min(others, key=lambda one: one.distance(parsed.values))
            places = _places(nearest, parsed)
            try:
                made = self._compile(_generic(parsed, places))
            except RuntimeError:
                places = {}
            else:
                # It is for the same texts, too.
                known.remove(nearest)
        one = _One(parsed.values, places, self._compile(text) if made is None else made, self._batch)
        known.insert(0, one)
        del known[_MOST_OF_A_KIND:]
        return one.made, one.numbers(parsed) or []

    def _known(self, kind: str) -> list[_One[T]]:
        known = self._kinds.setdefault(kind, [])
        self._kinds.move_to_end(kind)
        if len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        return known


def _places(nearest: _One[T], parsed: Parsed) -> dict[int, int]:
    """Tell which numbers of a text are read from the table, and where: alike ones from the same place."""
    found: dict[tuple[str, str, str, int | None], int] = {}
    places = {}
    for n, (kind, before, now) in enumerate(zip(parsed.kinds, nearest.values, parsed.values)):
        at = nearest.places.get(n)
        if at is not None or before != now:
            places[n] = found.setdefault((kind, before, now, at), len(found))
    return places


def _as_word(kind: str, value: str) -> int:
    """Return a number of a text as the 64 bits that the table has for it."""
    if kind in ("float", "double"):
        # LLVM writes both as the bits of a double.
        real = struct.unpack("<d", int(value, 16).to_bytes(8, "little"))[0]
        packed = struct.pack("<f4x" if kind == "float" else "<d", real)
    else:
        packed = struct.pack("<q", int(value))
    return int(struct.unpack("<q", packed)[0])


def _generic(parsed: Parsed, places: Mapping[int, int]) -> str:
    """Write a text anew, with some of its numbers read from the table."""
    parts = []
    for n, piece in enumerate(parsed.pieces[:-1]):
        parts += [piece, f'%"table.{places[n]}"' if n in places else parsed.values[n]]
    kinds = {at: parsed.kinds[n] for n, at in places.items()}
    return "\n".join(_with_tables("".join([*parts, parsed.pieces[-1]]), kinds))


def _with_tables(text: str, kinds: Mapping[int, str]) -> Iterator[str]:
    """Give functions the table, and have them read from it what they use."""
    inner = {found[3] for found in _FUNCTION.finditer(text) if found[1]} - {_FITS}
    for block in re.split(r"(?m)^(?=define )", text):
        lines = block.splitlines()
        head = _FUNCTION.match(block)
        if head is None or head[3] == _FITS:
            yield from lines
            continue
        body = [_CALLED.sub(lambda m: m[0] + 'ptr %"table", ' * (m[1] in inner), line) for line in lines[3:]]
        first = 'ptr noalias %"table", ' if head[1] else ""
        yield f"define {head[1] or ''}{head[2]}{first}{head[4]}"
        yield from lines[1:3]
        if head[1] is None:
            words = '%".1"'
            if head[3] == _ROWS:
                words = '%"table.words"'
                yield f'  {words} = load ptr, ptr %".1"'
            elif head[3] != _BARE:
                # The interpreter's functions get an array: its memory begins with addresses.
                words = '%"table.words"'
                yield f'  %"table.array" = getelementptr i8, ptr %".1", i64 {machine.DATA}'
                yield f'  {words} = load ptr, ptr %"table.array"'
            yield f'  %"table" = getelementptr i64, ptr {words}, i64 {machine.NUMBERS + 1}'
        for at in sorted({int(n) for n in re.findall(r'%"table\.(\d+)"', "\n".join(body))}):
            yield f'  %"table.{at}.at" = getelementptr i64, ptr %"table", i64 {at}'
            yield f'  %"table.{at}" = load {kinds[at]}, ptr %"table.{at}.at"'
        yield from body
