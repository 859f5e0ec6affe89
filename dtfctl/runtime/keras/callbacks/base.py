"""The base of callbacks, several as one, and those that every run has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any


class Callback:
    """Base of callbacks: methods that are called as training goes on; each does nothing unless it is overridden."""

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}
        self.validation_data: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Learn how many epochs, steps and examples there are."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Learn the model."""
        self.model = model

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch; counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End an epoch; logs have loss and metrics by name, those of validation with `val_` before it."""

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a batch of training."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a batch of training; logs have its size, loss and metrics."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a batch of training."""
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a batch of training."""
        self.on_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a batch of evaluation."""

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a batch of evaluation."""

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a batch of prediction."""

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """End a batch of prediction."""

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin training."""

    def on_train_end(self, logs: Any = None) -> None:
        """End training."""

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin evaluation."""

    def on_test_end(self, logs: Any = None) -> None:
        """End evaluation."""

    def on_predict_begin(self, logs: Any = None) -> None:
        """Begin prediction."""

    def on_predict_end(self, logs: Any = None) -> None:
        """End prediction."""


class CallbackList:
    """Several callbacks as one."""

    def __init__(self, callbacks: Sequence[Any] = (), queue_length: int = 10) -> None:
        self.callbacks = list(callbacks)

    def on_begin(self, mode: str) -> None:
        """Begin training, evaluation or prediction."""
        for c in self.callbacks:
            getattr(c, f"on_{mode}_begin")({})

    def on_end(self, mode: str) -> None:
        """End training, evaluation or prediction."""
        for c in self.callbacks:
            getattr(c, f"on_{mode}_end")({})

    def on_batch_begin(self, mode: str, batch: int, logs: dict[str, Any]) -> None:
        """Begin a batch."""
        for c in self.callbacks:
            getattr(c, f"on_{mode}_batch_begin")(batch, logs)

    def on_batch_end(self, mode: str, batch: int, logs: dict[str, Any]) -> None:
        """End a batch."""
        for c in self.callbacks:
            getattr(c, f"on_{mode}_batch_end")(batch, logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any]) -> None:
        """Begin an epoch."""
        for c in self.callbacks:
            c.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        """End an epoch."""
        for c in self.callbacks:
            c.on_epoch_end(epoch, logs)


class History(Callback):
    """Loss and metrics of all epochs: `history` has a list for each name. `fit` returns one."""

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin with nothing."""
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keep what came of an epoch."""
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


class _Printer(Callback):
    """Prints a line an epoch, as `fit` does unless it is told not to."""

    def __init__(self, verbose: int) -> None:
        super().__init__()
        self.verbose = verbose
        self.epochs = 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Say which epoch begins."""
        self._began = time.monotonic()
        if self.verbose:
            print(f"Epoch {epoch + 1}/{self.params.get('epochs')}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Say what came of it."""
        if self.verbose:
            count = self.params.get("samples") or self.params.get("steps")
            parts = [f"{name}: {value:.4f}" for name, value in (logs or {}).items()]
            print(f"{count}/{count} - {time.monotonic() - self._began:.0f}s - {' - '.join(parts)}")


def configure(
    callbacks: Any,
    model: Any,
    *,
    do_validation: bool = False,
    batch_size: int | None = None,
    epochs: int = 1,
    steps: int | None = None,
    samples: int | None = None,
    verbose: int = 0,
    mode: str = "train",
) -> CallbackList:
    """List the callbacks of a run: those that are given, and those that always are."""
    given = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks is not None else []
    if mode == "train":
        model.history = History()
        given = [*given, model.history]
        if verbose:
            given.append(_Printer(verbose))
    params = {
        "batch_size": batch_size,
        "epochs": epochs,
        "steps": steps,
        "samples": samples,
        "verbose": verbose,
        "do_validation": do_validation,
        "metrics": [*(n for n in _names(model)), *(f"val_{n}" for n in _names(model) if do_validation)],
    }
    for c in given:
        c.set_params(params)
        c.set_model(model)
    return CallbackList(given)


def _names(model: Any) -> list[str]:
    return model.metrics_names if model._endpoints else []
