"""TF1's optimizers, as `compile` takes them."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.keras import state
from dtfctl.runtime.ops.variables import Variable


class TFOptimizer:
    """An optimizer of `tf.train`, with the count of steps that Keras's have.

    Args:
        iterations: the variable that counts; a new one when None.
    """

    def __init__(self, optimizer: Any, iterations: Any = None) -> None:
        self.optimizer = optimizer
        if iterations is None:
            with name_scope("TFOptimizer"):
                iterations = Variable(constant(0, dtypes.int64), name="iterations", use_resource=True)
        self.iterations: Any = iterations
        state.track_variable(self.iterations)
        state.graph_state().optimizers.append(optimizer)

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Make the ops of one step."""
        pairs = self.optimizer.compute_gradients(loss, params)
        return [self.optimizer.apply_gradients(pairs, global_step=self.iterations)]

    @property
    def weights(self) -> list[Any]:
        """Fail: TF1's optimizers have their variables by name."""
        raise NotImplementedError("tf.train optimizers have `variables()`, not `weights`")

    def _trackable_children(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer, "global_step": self.iterations}
