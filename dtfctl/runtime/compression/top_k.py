"""The codec that sends the few greatest elements (deep gradient compression)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dtfctl.runtime.compression.codec import Bytes, Floats, Shape, register_codec, require, split
from dtfctl.runtime.framework.errors import DataLossError

# Elements looked at to guess which magnitude the k-th greatest has.
_SAMPLE = 16384
_WARM = 0.25


@register_codec
@dataclass(frozen=True)
class TopK:
    """The elements of greatest magnitude are sent, the others are added up until they are among those; momentum is
    corrected and forgotten where an element was sent (DGC: Lin, Han et al. 2018).

    Args:
        ratio: what share of the elements is sent.
        momentum: of the sender, in place of the optimizer's: the optimizer is then plain gradient descent.
        warmup: tensors over which the share goes from a quarter down to `ratio`.
    """

    ratio: float = 0.01
    momentum: float = 0.0
    warmup: int = 0
    name: ClassVar[str] = "topk"

    def __post_init__(self) -> None:
        require(0 < self.ratio <= 1, f"topk: ratio={self.ratio} is not a share above 0 and up to 1")
        require(0 <= self.momentum < 1, f"topk: momentum={self.momentum} is not from 0 to below 1")
        require(0 <= self.warmup < 2**24, f"topk: warmup={self.warmup} is no number of steps")

    def state_size(self, shape: Shape) -> int:
        return math.prod(shape) * (2 if self.momentum else 1) + (1 if self.warmup else 0)

    def encode(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> list[Any] | None:
        count = values.size
        kept = max(1, round(count * self._ratio(before)))
        if 8 * kept >= 4 * count:
            return None
        total, velocity = self._add(values, before, after)
        chosen = _greatest(total, kept)
        sent = total[chosen]
        total[chosen] = 0
        if velocity is not None:
            velocity[chosen] = 0
        return [chosen.astype(np.uint32), sent]

    def whole(self, values: Floats, shape: Shape, before: Floats, after: Floats) -> Floats:
        # All is sent with its velocity, which stays: that is the optimizer's momentum as it would be without a codec.
        total, _ = self._add(values, before, after)
        owed = total.copy()
        total[...] = 0
        return owed

    def _add(self, values: Floats, before: Floats, after: Floats) -> tuple[Floats, Floats | None]:
        """Add a tensor to what has not been sent; that, and the velocity where there is one."""
        count = values.size
        total, velocity = after[:count], None
        if self.momentum:
            velocity = after[count : 2 * count]
            np.multiply(before[count : 2 * count], self.momentum, out=velocity)
            velocity += values
            np.add(before[:count], velocity, out=total)
        else:
            np.add(before[:count], values, out=total)
        if self.warmup:
            after[-1] = min(before[-1] + 1, self.warmup)
        return total, velocity

    def _ratio(self, state: Floats) -> float:
        if not self.warmup or state[-1] >= self.warmup or self.ratio >= _WARM:
            return self.ratio
        return float(_WARM * (self.ratio / _WARM) ** (state[-1] / self.warmup))

    def decode(self, payload: Bytes, shape: Shape) -> Floats:
        count, kept = math.prod(shape), payload.nbytes // 8
        chosen, sent = split(payload, (kept, np.uint32), (kept, np.float32))
        if kept and int(chosen.max()) >= count:
            raise DataLossError(f"An element was sent that a tensor of {count} does not have")
        out: Floats = np.zeros(count, np.float32)
        out[chosen] = sent
        return out


def _greatest(values: Floats, kept: int) -> Any:
    """Find about `kept` elements of greatest magnitude, never more; ascending positions."""
    sizes = np.abs(values)
    if values.size > 4 * _SAMPLE:
        # Few of many: those above a guess are looked at again.
        sample = sizes[:: values.size // _SAMPLE]
        rank = max(0, len(sample) - 1 - math.ceil(1.3 * kept * len(sample) / values.size))
        found = np.flatnonzero(sizes >= np.partition(sample, rank)[rank])
        if kept <= len(found) <= values.size // 2:
            best = np.argpartition(sizes[found], len(found) - kept)[len(found) - kept :]
            return np.sort(found[best])
    return np.sort(np.argpartition(sizes, values.size - kept)[values.size - kept :])
