"""Batches by number, as `fit` takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Sequence:
    """Base of data that is given a batch at a time: subclasses define `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what its batches are: define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not say how many batches it has: define __len__")

    def on_epoch_end(self) -> None:
        """Learn that an epoch is over."""

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))
