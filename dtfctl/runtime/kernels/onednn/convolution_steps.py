"""Convolutions as steps of tapes (kernels/native/tape.py), in parts of their images."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.kernels.into.registry import Spec
from dtfctl.runtime.kernels.native import machine, tape
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.tape import Part, Step, divided
from dtfctl.runtime.kernels.onednn.convolution import Convolution, Kind
from dtfctl.runtime.kernels.onednn.library import Library, OneDnnError
from dtfctl.runtime.kernels.onednn.passes import aligned
from dtfctl.runtime.kernels.onednn.steps import executing, pool_of

# What putting filters in order takes, or adding up what parts gave, of all.
_SHARE = 0.02
# What parts sum up apart takes so much room at most.
_MOST_ROOM = 32 << 20
_TYPES = frozenset(machine.TYPES)

Runs = list[tuple[ctypes.c_void_p, Mapping[str, ctypes.c_void_p]]]
Points = list[tuple[ctypes.c_void_p, int, int]]


def convolution_step(
    convolution: Convolution, kind: Kind, arrays: Sequence[Spec | None], places: Sequence[int]
) -> Step | None:
    """Make a pass a step; None where tapes cannot be had, or know nothing of such arrays.

    Args:
        arrays: what its call gets, results last; places: which of them the pass' operands are, in their order.

    Raises:
        KeyError: the code of tapes was not compiled yet.
        OneDnnError: the library has nothing for that.
        OSError: the system lets nobody run what they have written.
    """
    code = tape.image()
    specs = [spec for spec in arrays if spec is not None and spec.dtype.str[1:] in _TYPES]
    if code is None or len(specs) < len(arrays) or len(specs) > machine.MOST_OF_STEP:
        return None
    made = _Steps(convolution, kind, specs, places, code)
    entry, words, held = made.whole()
    library = convolution.library
    return Step(entry, words, specs, len(specs) - kind.results, pool=pool_of(library), cut=made.cut, held=held)


class _Block:
    """The pass over some images, by one thread.

    Attributes:
        copied: operands that are not as the library wants them, and what makes them so, or the other way round.
    """

    def __init__(self, convolution: Convolution, kind: Kind) -> None:
        library = convolution.library
        primitive, self.plain, self.wanted, scratchpad = convolution.alone(kind)
        self.copied = [name for name in kind.names if not library.same(self.plain[name], self.wanted[name])]
        self.memories = {name: library.memory(wanted) for name, wanted in self.wanted.items()}
        self.scratch = aligned(library.nbytes(scratchpad))
        given = library.memory(scratchpad)
        library.point(given, self.scratch)
        self.run = primitive, {**self.memories, "scratchpad": given}


class _Steps:
    def __init__(
        self, convolution: Convolution, kind: Kind, specs: Sequence[Spec], places: Sequence[int], code: Image
    ) -> None:
        self._convolution, self._kind, self._specs, self._code = convolution, kind, specs, code
        self._library: Library = convolution.library
        self._place = dict(zip(kind.names, places))
        self._is_cut = dict(zip(kind.names, kind.cut))
        self._inputs = kind.names[: -kind.results]
        self._results = kind.names[-kind.results :]

    def whole(self) -> tuple[int, Any, Any]:
        """Make the pass over all images: entry, words, and what is to be held."""
        block = _Block(self._convolution, self._kind)
        points, before, after = self._pointed(block, 0), [], []
        own = []
        for name in block.copied:
            room = self._room(block, name)
            own.append(room)
            self._library.point(block.memories[name], room)
            plain = self._library.memory(block.plain[name])
            points.append((plain, self._place[name], 0))
            if name in self._inputs:
                before.append(self._reordered(block, name, plain, block.memories[name]))
            else:
                after.append(self._reordered(block, name, block.memories[name], plain, is_result=True))
        return self._executing(points, [*before, block.run, *after], (block, own))

    def cut(self, count: int) -> list[list[Part]]:
        """Cut the pass into parts of its images, after filters were put in order, and before sums are added up."""
        images = self._convolution.images
        if self._kind.sums:
            one = sum(spec.nbytes for spec in self._specs[-self._kind.sums :])
            count = min(count, _MOST_ROOM // one)
        if count < 2:
            return []
        try:
            rows = divided(images, count)
            blocks = [_Block(self._convolution.of_images(end - first), self._kind) for first, end in rows]
            if any(not self._are_alike(blocks[0], block) for block in blocks):
                return []
            prepared, shared = self._prepared(blocks[0])
            found = [prepared] if prepared else []
            sums = self._results[len(self._results) - self._kind.sums :] if self._kind.sums else ()
            rooms = [{name: self._room(block, name) for name in sums} for block in blocks]
            rest = 1.0 - _SHARE * (bool(prepared) + bool(sums))
            parts = []
            for (first, end), block, own in zip(rows, blocks, rooms):
                for name, room in {**shared, **own}.items():
                    self._library.point(block.memories[name], room)
                left = [name for name in self._kind.names if name not in shared and name not in own]
                entry, words, held = self._executing(
                    self._pointed(block, first, left), [block.run], (block, shared, own)
                )
                touched = [self._touched(name, first, end) for name in left]
                touched += [_own(room, False) for room in shared.values()] + [_own(room, True) for room in own.values()]
                parts.append(Part(entry, words, rest * (end - first) / images, touched, held))
            found.append(parts)
            if sums:
                found.append([self._added_up(blocks, rooms, sums)])
        except OneDnnError:
            return []
        return found

    def _are_alike(self, a: _Block, b: _Block) -> bool:
        """Tell whether two blocks want what they share in one layout."""
        return a.copied == b.copied and all(
            self._library.same(a.wanted[name], b.wanted[name]) for name in a.wanted if not self._is_cut[name]
        )

    def _prepared(self, block: _Block) -> tuple[list[Part], dict[str, Any]]:
        """Make the part that puts inputs in order which all blocks read; and where it puts them."""
        points: Points = []
        runs: Runs = []
        rooms: dict[str, Any] = {}
        for name in block.copied:
            if name not in self._inputs:
                continue
            if self._is_cut[name]:
                raise OneDnnError("images are wanted in another layout")
            plain, wanted = self._library.memory(block.plain[name]), self._library.memory(block.wanted[name])
            rooms[name] = self._room(block, name)
            self._library.point(wanted, rooms[name])
            points.append((plain, self._place[name], 0))
            runs.append(self._reordered(block, name, plain, wanted))
        if not runs:
            return [], rooms
        entry, words, held = self._executing(points, runs, (block, rooms))
        touched = [self._touched(name, 0, 0) for name in rooms] + [_own(room, True) for room in rooms.values()]
        return [Part(entry, words, _SHARE, touched, held)], rooms

    def _added_up(self, blocks: Sequence[_Block], rooms: Sequence[Mapping[str, Any]], sums: Sequence[str]) -> Part:
        """Make the part that adds up what blocks have summed up."""
        points: Points = []
        runs: Runs = []
        for name in sums:
            plain = self._library.memory(blocks[0].plain[name])
            points.append((plain, self._place[name], 0))
            for n, block in enumerate(blocks):
                runs.append(self._reordered(block, name, block.memories[name], plain, is_result=True, adds=n > 0))
        entry, words, held = self._executing(points, runs, (blocks, rooms))
        touched = [self._touched(name, 0, 0) for name in sums]
        touched += [_own(room, False) for of in rooms for room in of.values()]
        return Part(entry, words, _SHARE, touched, held)

    def _executing(self, points: Points, runs: Runs, held: Any) -> tuple[int, Any, Any]:
        return executing(self._library, self._code, self._specs, self._kind.results, points, runs, held)

    def _pointed(self, block: _Block, first: int, names: Sequence[str] | None = None) -> Points:
        """List which memory objects are arrays as they are, from an image on where these have images."""
        found = []
        for name in block.memories if names is None else names:
            if names is not None or name not in block.copied:
                begin = first * self._row(name) if self._is_cut[name] else 0
                found.append((block.memories[name], self._place[name], begin))
        return found

    def _row(self, name: str) -> int:
        spec = self._specs[self._place[name]]
        return spec.nbytes // spec.shape[0]

    def _touched(self, name: str, first: int, end: int) -> tuple[int, int, int, bool]:
        n = self._place[name]
        row, nbytes = self._row(name), self._specs[n].nbytes
        begin, behind = (first * row, end * row) if self._is_cut[name] else (0, nbytes)
        return n, begin, behind, name in self._results

    def _room(self, block: _Block, name: str) -> Any:
        return aligned(self._library.nbytes(block.wanted[name]))

    def _reordered(
        self,
        block: _Block,
        name: str,
        source: ctypes.c_void_p,
        target: ctypes.c_void_p,
        is_result: bool = False,
        adds: bool = False,
    ) -> tuple[ctypes.c_void_p, Mapping[str, ctypes.c_void_p]]:
        """Make a copy from one memory object to another, by one thread."""
        first, second = block.plain[name], block.wanted[name]
        if is_result:
            first, second = second, first
        return self._library.reorder_alone(first, second, adds), {"src": source, "dst": target}


def _own(room: Any, is_written: bool) -> tuple[int, int, int, bool]:
    """Say what a part does to memory that is no array's."""
    at = room.__array_interface__["data"][0]
    return -1, at, at + room.nbytes, is_written
