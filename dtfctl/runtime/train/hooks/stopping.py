"""Hooks that end training, or hold it back."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

from dtfctl.errors import DtfctlError
from dtfctl.runtime.train.hooks.timing import global_step_read
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

log = logging.getLogger("dtfctl.train")


class StopAtStepHook(SessionRunHook):
    """Ends after `num_steps` more steps, or at global step `last_step`."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError(
                "One of num_steps or last_step must be specified."
                if num_steps is None
                else "Only one of num_steps or last_step can be specified."
            )
        self._num_steps, self._last_step = num_steps, last_step

    @property
    def last_step(self) -> int | None:
        """The global step at which it ends; None until that is known."""
        return self._last_step

    def begin(self) -> None:
        self._step = global_step_read()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._last_step is None:
            self._last_step = int(session.run(self._step)) + int(self._num_steps or 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        last = int(self._last_step or 0)
        if int(run_values.results) + 1 >= last and int(run_context.session.run(self._step)) >= last:
            run_context.request_stop()


class NanLossDuringTrainingError(DtfctlError, RuntimeError):
    """The loss was not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Fails, or stops, when the loss is NaN."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if np.isnan(run_values.results):
            log.error("Model diverged with loss = NaN.")
            if self._fail:
                raise NanLossDuringTrainingError
            run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Holds a worker back until the global step reaches `wait_until_step`: workers then start one after the other."""

    def __init__(self, wait_until_step: int) -> None:
        self._until = wait_until_step

    def begin(self) -> None:
        self._reached = False
        self._step = global_step_read()

    def before_run(self, run_context: SessionRunContext) -> None:
        while not self._reached and self._until > 0:
            if int(run_context.session.run(self._step)) >= self._until:
                self._reached = True
                return
            time.sleep(0.5)
