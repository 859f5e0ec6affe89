"""The base of metrics: a number of a stream of batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.keras.backend.values import batch_set_value
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization
from dtfctl.runtime.replication import contexts


class Metric(Layer):
    """A number of a stream of batches: subclasses define `update_state` and `result`."""

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype or dtypes.float32, **kwargs)
        self.stateful = True
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if contexts.has_strategy():
            raise NotImplementedError(
                f"The metric {self.name} is called in the scope of {contexts.get_strategy()}: give it to `compile`, or "
                "call update_state in a replica and result() across them"
            )
        update = self.update_state(*args, **kwargs)
        self.add_update(update)
        with control_dependencies([update]):
            result = self.result()
        result._metric_obj = self
        self._result = result
        return result

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Make the op that adds a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not say how a batch is added: define update_state")

    def result(self) -> Any:
        """Compute the number from the variables."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes: define result")

    def reset_states(self) -> None:
        """Set all variables to zero in Keras's session."""
        batch_set_value([(v, np.zeros(v.shape.as_list())) for v in self.weights])

    reset_state = reset_states

    def add_weight(  # type: ignore[override]
        self, name: str, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, **kwargs: Any
    ) -> Any:
        """Make a variable of the metric's own, in no collection; replicas of a strategy add theirs up when read."""
        own = {"synchronization": VariableSynchronization.ON_READ, "aggregation": VariableAggregation.SUM}
        return super().add_weight(
            name, shape, dtype or self._dtype, initializer, trainable=False, collections=[], **{**own, **kwargs}
        )

    def _charge_outputs(self, inputs: Any, outputs: Any) -> None:
        """Leave the loss as it is."""

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"name": self.name, "dtype": self.dtype}
