"""What layers of a model were trained when it was compiled: `trainable` may be set to something else for another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class TrainableState:
    """Which layers of a model were trained when this was made."""

    def __init__(self, model: Any) -> None:
        self._flags = list({id(layer): (layer, layer._trainable) for layer in model._all_layers()}.values())

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Let the layers be trained, or not, as they were."""
        now = [(layer, layer._trainable) for layer, _ in self._flags]
        try:
            for layer, flag in self._flags:
                layer._trainable = flag
            yield
        finally:
            for layer, flag in now:
                layer._trainable = flag
