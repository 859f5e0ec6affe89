"""What steps that were looked at have shown of a partition's values.

Some have other shapes in each step though it gets the same from outside, as they depend on what values are: embeddings
are trained so. How many different words a batch has is another number each time, and with it what is computed of
their gradients.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.fusions import Output
from dtfctl.runtime.kernels.into.registry import Spec

# Smaller values are kept whatever there is of them, and no larger ones than these, nor so many bytes in all.
_LEAST_BYTES = 1024
MOST_KEPT = 1 << 20
_MOST_HELD = 32 << 20


@dataclass
class Observation:
    """What one step's nodes gave; stands in for a trace.

    Of large arrays only the shape is kept: held any longer, a table would be copied before its rows are changed. So it
    is of others, once what is held is much: a step may have little at a time of all that it has.

    Attributes:
        unsteady: outputs whose shapes say nothing of the next step's; of one set for all steps of a partition.
    """

    outputs: dict[Output, Any] = field(default_factory=dict)
    spent: dict[Node, int] = field(default_factory=dict)
    held: int = 0
    unsteady: set[Output] = field(default_factory=set)
    _specs: dict[Output, Spec | None] = field(default_factory=dict, init=False, repr=False)

    def add(self, device: str, node: Node, started: int, ended: int, outputs: Sequence[Any]) -> None:
        self.spent[node] = ended - started
        for slot, value in enumerate(outputs):
            if isinstance(value, np.ndarray) and node.op != "Const" and value.nbytes >= _LEAST_BYTES:
                if value.nbytes > min(MOST_KEPT, _MOST_HELD - self.held):
                    self.outputs[node, slot] = Spec(value.shape, value.dtype)
                    continue
                self.held += value.nbytes
            self.outputs[node, slot] = value

    def forget(self, but: Container[Output]) -> None:
        """Keep of arrays only what they are, but for some outputs; nothing of what variants hold."""
        for output, value in self.outputs.items():
            if isinstance(value, np.ndarray) and output not in but:
                self.outputs[output] = None if value.dtype.hasobject else Spec(value.shape, value.dtype)

    def rely_but_on(self, unsteady: set[Output]) -> None:
        """Forget what some outputs are, and those that are added to the set by `differs`."""
        self.unsteady = unsteady
        self._specs.clear()

    def take(self, values: Mapping[Output, Any]) -> None:
        """Note what some outputs are, without their values."""
        self.outputs.update((o, Spec(v.shape, v.dtype) if isinstance(v, np.ndarray) else v) for o, v in values.items())

    def differs(self, other: Observation) -> None:
        """Forget what was otherwise in another step of the same shapes."""
        self.unsteady.update(
            o for o, v in other.outputs.items() if o in self.outputs and _of(v) != _of(self.outputs[o])
        )
        self._specs.clear()

    def spec(self, output: Output) -> Spec | None:
        """Tell what an output is; None where that says nothing of the next step's, or it is no array."""
        try:
            return self._specs[output]
        except KeyError:
            found = self._specs[output] = self._spec(output)
            return found

    def _spec(self, output: Output) -> Spec | None:
        return None if output in self.unsteady else _of(self.outputs.get(output))


def _of(value: Any) -> Spec | None:
    """Tell what a value is; None of what is no array of numbers."""
    if isinstance(value, Spec):
        return None if value.dtype.hasobject else value
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.hasobject:
        return None
    return Spec(value.shape, value.dtype)
