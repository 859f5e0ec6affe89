"""Which tensors a program makes smaller: its losses, by their graphs."""

from __future__ import annotations

import weakref
from typing import Any

_LOSSES: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()
_MOST = 4


def note_loss(graph: Any, loss: Any) -> None:
    """Note that gradients of `loss` are taken by an optimizer; of a graph the first few are kept."""
    losses = _LOSSES.setdefault(graph, [])
    if len(losses) < _MOST and all(known() is not loss for known in losses):
        losses.append(weakref.ref(loss))


def losses_of(graph: Any) -> dict[str, Any]:
    """Find the losses of a graph that are single numbers, by the names they are shown under: loss, loss_2 ..."""
    found = [loss for known in _LOSSES.get(graph, ()) if (loss := known()) is not None and loss.shape.rank == 0]
    return {"loss" if number == 1 else f"loss_{number}": loss for number, loss in enumerate(found, 1)}
