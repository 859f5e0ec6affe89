"""Where to cut a row of ops into stages that take about the same time, with little to send between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise

# By how much a stage may take longer than need be, where less is sent for it.
SLACK = 0.02


def balanced(costs: Sequence[float], crossing: Sequence[int], stages: int, slack: float = SLACK) -> list[int]:
    """Cut a row into stages of which the dearest is as cheap as can be, and among such cuts sends least.

    Args:
        costs: of each item, in any unit.
        crossing: bytes that are sent where the row is cut before each item; the first is not looked at.
        slack: by how much of its cost the dearest stage may be dearer, where less is sent for it.

    Returns:
        the item at which each stage begins; the first is 0.

    Raises:
        ValueError: there are fewer items than stages.
    """
    count = len(costs)
    if count < stages:
        raise ValueError(f"{count} ops cannot be cut into {stages} stages")
    sums = [0.0, *accumulate(costs)]
    limit = _least_limit(sums, stages) * (1 + slack) + 1e-12
    # least[j]: bytes sent by the best cut of the first j items into so many stages; came[j]: where its last one begins.
    least: list[float] = [0.0] + [float("inf")] * count
    came: list[list[int]] = []
    for stage in range(stages):
        best, origin = [float("inf")] * (count + 1), [0] * (count + 1)
        window: deque[tuple[float, int]] = deque()
        for end in range(1, count + 1):
            start = end - 1
            sent = least[start] + (crossing[start] if stage else 0)
            while window and window[-1][0] >= sent:
                window.pop()
            window.append((sent, start))
            while window and sums[end] - sums[window[0][1]] > limit:
                window.popleft()
            if window:
                best[end], origin[end] = window[0]
        came.append(origin)
        least = best
    begins, end = [], count
    for origin in reversed(came):
        begins.append(origin[end])
        end = origin[end]
    return begins[::-1]


def _least_limit(sums: Sequence[float], stages: int) -> float:
    """Find the least cost of the dearest stage, to a millionth of the whole."""
    low = max(sums[-1] / stages, max((b - a for a, b in pairwise(sums)), default=0.0))
    high = sums[-1]
    for _ in range(60):
        if high - low <= 1e-6 * sums[-1]:
            break
        middle = (low + high) / 2
        if _fits(sums, stages, middle):
            high = middle
        else:
            low = middle
    return high


def _fits(sums: Sequence[float], stages: int, limit: float) -> bool:
    """Tell whether a row can be cut into so many stages, each with an item at least, none of them dearer."""
    count, at = len(sums) - 1, 0
    for left in range(stages - 1, -1, -1):
        # Later stages want an item each.
        end = min(bisect_right(sums, sums[at] + limit) - 1, count - left)
        if end <= at:
            return False
        at = end
    return at == count


def crossing_bytes(sizes: Sequence[int], last_use: Sequence[int]) -> list[int]:
    """Compute what is sent where a row is cut before each item.

    Args:
        sizes: bytes that each item gives to later ones.
        last_use: the last item that takes them; itself where none does.
    """
    change = [0] * (len(sizes) + 2)
    for i, (size, last) in enumerate(zip(sizes, last_use, strict=True)):
        if last > i:
            change[i + 1] += size
            change[last + 1] -= size
    return list(accumulate(change[: len(sizes)]))


def stage_at(begins: Sequence[int], item: int) -> int:
    """Return the stage that an item is in."""
    return bisect_left(begins, item + 1) - 1
