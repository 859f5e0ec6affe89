"""Boxes of a larger tensor: how partitioned variables are saved and restored piece by piece."""

from __future__ import annotations

from dataclasses import dataclass

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.checkpoint.ordered_code import write_number, write_signed, write_string
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError

FULL = -1


def shape_text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


@dataclass(frozen=True)
class TensorSlice:
    """`starts[d]` and `lengths[d]` in each dimension; a length of FULL means all of it."""

    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def full(cls, rank: int) -> TensorSlice:
        return cls((0,) * rank, (FULL,) * rank)

    @classmethod
    def parse(cls, text: str) -> TensorSlice:
        """Parse "start,length:-:..." as shape_and_slice strings have it.

        Raises:
            InvalidArgumentError: an item is neither "-" nor a pair of numbers.
        """
        starts, lengths = [], []
        for item in text.split(":") if text else []:
            if not item:
                continue
            if item == "-":
                starts.append(0)
                lengths.append(FULL)
                continue
            pair = [p for p in item.split(",") if p]
            try:
                start, length = (int(p) for p in pair)
            except ValueError:
                raise InvalidArgumentError(
                    f"Expected a pair of numbers or '-' but got '{item}': string = {text}"
                ) from None
            if start < 0 or length <= 0:
                raise InvalidArgumentError(
                    f"Expected non-negative start and positive length but got start = {start}, length = {length}: "
                    f"string = {text}"
                )
            starts.append(start)
            lengths.append(length)
        return cls(tuple(starts), tuple(lengths))

    @classmethod
    def from_proto(cls, proto: tensor_pb2.TensorSliceProto) -> TensorSlice:
        extents = [(e.start, e.length if e.WhichOneof("has_length_hack") else FULL) for e in proto.extent]
        return cls(tuple(s for s, _ in extents), tuple(n for _, n in extents))

    def to_proto(self) -> tensor_pb2.TensorSliceProto:
        proto = tensor_pb2.TensorSliceProto()
        for start, length in zip(self.starts, self.lengths):
            extent = proto.extent.add()
            if length != FULL:
                extent.start, extent.length = start, length
        return proto

    def applied_to(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the slice as numpy indices into a tensor of `shape`.

        Raises:
            InternalError: ranks differ or the slice reaches outside.
        """
        if len(shape) != len(self.starts):
            raise InternalError(f"Mismatching ranks: shape = {shape_text(shape)}, slice = {self}")
        out = []
        for d, (start, length, size) in enumerate(zip(self.starts, self.lengths, shape)):
            if length == FULL:
                out.append(slice(0, size))
            elif start + length <= size:
                out.append(slice(start, start + length))
            else:
                raise InternalError(
                    f"Extent in dimension {d} out of bounds: shape = {shape_text(shape)}, slice = {self}"
                )
        return tuple(out)

    def key(self, name: str) -> bytes:
        """Return the checkpoint key of this slice of tensor `name`."""
        key = write_number(0) + write_string(name.encode()) + write_number(len(self.starts))
        for start, length in zip(self.starts, self.lengths):
            key += write_signed(start) + write_signed(length)
        return key

    def __str__(self) -> str:
        return ":".join("-" if n == FULL else f"{s},{n}" for s, n in zip(self.starts, self.lengths))


def parse_shape_and_slice(spec: str) -> tuple[tuple[int, ...], TensorSlice, tuple[int, ...]]:
    """Full shape, slice and slice shape of "dim dim ... slice".

    Raises:
        InvalidArgumentError: the text does not describe a slice of a shape.
    """
    words = spec.split(" ")
    if len(words) < 2:
        raise InvalidArgumentError(
            f"Need least two elements in shape_and_slice specification: {spec}",
        )
    try:
        shape = tuple(int(w) for w in words[:-1])
    except ValueError:
        raise InvalidArgumentError(f"Non numerical dimension in shape_and_slice: {spec}") from None
    piece = TensorSlice.parse(words[-1])
    if len(piece.starts) != len(shape):
        raise InvalidArgumentError(
            f"The slice has {len(piece.starts)} dimensions and the shape {len(shape)}, in: {spec}"
        )
    return shape, piece, tuple(s.stop - s.start for s in piece.applied_to(shape))
