"""When a hook is due: seconds, steps and the global step."""

from __future__ import annotations

import time

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.train import training_util


class SecondOrStepTimer:
    """Says when something that shall happen every so many seconds or steps is due.

    Raises:
        ValueError: both or neither are given.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        self._last_step: int | None = None
        self._last_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._secs is not None:
            return time.monotonic() >= (self._last_time or 0.0) + self._secs
        return step >= self._last_step + (self._steps or 0)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Seconds and steps since the last time."""
        now = time.monotonic()
        secs = None if self._last_time is None else now - self._last_time
        steps = None if self._last_step is None else step - self._last_step
        self._last_time, self._last_step = now, step
        return secs, steps

    def last_triggered_step(self) -> int | None:
        return self._last_step


def global_step_read() -> Tensor:
    """Return a tensor with the global step.

    Raises:
        RuntimeError: there is none.
    """
    step = training_util.get_global_step()
    if step is None:
        raise RuntimeError("Global step should be created to use this hook.")
    value: Tensor = step.value() if hasattr(step, "value") else step
    return value
