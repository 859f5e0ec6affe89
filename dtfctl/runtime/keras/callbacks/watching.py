"""Callbacks that watch a value and act on it: stop, save, or train more slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.keras import backend
from dtfctl.runtime.keras.callbacks.base import Callback


class TerminateOnNaN(Callback):
    """Stops training when the loss is not a number, or infinite."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Look at the loss."""
        loss = (logs or {}).get("loss")
        if loss is not None and (np.isnan(loss) or np.isinf(loss)):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class _Monitor(Callback):
    """Watches one name in the logs, for smaller or larger values."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        super().__init__()
        self.monitor = monitor
        rising = mode == "max" or (mode == "auto" and ("acc" in monitor or monitor.startswith("fmeasure")))
        self.monitor_op: Any = np.greater if rising else np.less
        self.min_delta = abs(min_delta) if rising else -abs(min_delta)
        self._worst = -np.inf if rising else np.inf

    def _current(self, logs: Any) -> Any:
        value = (logs or {}).get(self.monitor)
        if value is None:
            names = ",".join(logs or {})
            print(f"WARNING: `{type(self).__name__}` watches `{self.monitor}`, which is not there: {names}")
        return value


class EarlyStopping(_Monitor):
    """Stops training when a value has not become better for `patience` epochs."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self.start_from_epoch = start_from_epoch
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights = restore_best_weights
        self.stopped_epoch = self.wait = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin with nothing seen."""
        self.wait = self.stopped_epoch = 0
        self.best = self._worst if self.baseline is None else self.baseline
        self.best_weights: Any = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Look at the value."""
        current = self._current(logs)
        if current is None or epoch < self.start_from_epoch:
            return
        if self.monitor_op(current - self.min_delta, self.best):
            self.best, self.wait = current, 0
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.restore_best_weights and self.best_weights is not None:
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: Any = None) -> None:
        """Say when it stopped."""
        if self.stopped_epoch > 0 and self.verbose > 0:
            print(f"Epoch {self.stopped_epoch + 1:05d}: early stopping")


class ModelCheckpoint(_Monitor):
    """Saves the model after epochs, or its weights; `filepath` may have `{epoch}` and names of the logs in it.

    Args:
        save_freq: "epoch", or after how many batches it is saved.
        initial_value_threshold: what must be bettered before the first is saved with `save_best_only`.
    """

    def __init__(
        self,
        filepath: str,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        options: Any = None,
        initial_value_threshold: float | None = None,
        *,
        period: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(monitor, mode)
        if kwargs.pop("load_weights_on_restart", False) or options is not None or kwargs:
            raise NotImplementedError(
                "tf.keras.callbacks.ModelCheckpoint has no options, and loads nothing: call `load_weights` before `fit`"
            )
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError(f"Unrecognized save_freq: {save_freq}. Expected save_freq are 'epoch' or integer values")
        self.save_freq, self._unsaved = save_freq, 0
        self.filepath, self.verbose, self.save_best_only, self.period = filepath, verbose, save_best_only, period
        self.save_weights_only = save_weights_only
        self.best = self._worst if initial_value_threshold is None else initial_value_threshold
        self._since = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Fail at once where the model cannot be saved whole."""
        if not self.save_weights_only:
            try:
                self.model.get_config()
            except NotImplementedError as e:
                raise NotImplementedError(f"{e}. Save its weights: ModelCheckpoint(save_weights_only=True)") from None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remember the epoch."""
        self._epoch = epoch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Save if it is time, and better if only the best is saved."""
        if self.save_freq == "epoch":
            return
        self._unsaved += 1
        if self._unsaved >= self.save_freq:
            self._unsaved = 0
            self._save(self._epoch, batch, logs or {})

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Save if it is time, and better if only the best is saved."""
        if self.save_freq != "epoch":
            return
        self._since += 1
        if self._since >= self.period:
            self._since = 0
            self._save(epoch, None, logs or {})

    def _save(self, epoch: int, batch: int | None, logs: Any) -> None:
        place = {} if batch is None else {"batch": batch + 1}
        path = self.filepath.format(epoch=epoch + 1, **{**logs, **place})
        if self.save_best_only:
            current = self._current(logs)
            if current is None or not self.monitor_op(current, self.best):
                return
            self.best = current
        if not self.model.should_checkpoint:
            return
        if self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: saving model to {path}")
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch: `schedule(epoch)` or `schedule(epoch, rate)`."""

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Set the rate."""
        if not hasattr(self.model.optimizer, "lr"):
            raise ValueError('Optimizer must have a "lr" attribute.')
        try:
            rate = self.schedule(epoch, float(backend.get_value(self.model.optimizer.lr)))
        except TypeError:
            rate = self.schedule(epoch)
        if not isinstance(rate, (float, np.float32, np.float64)):
            raise ValueError('The output of the "schedule" function should be float.')
        backend.set_value(self.model.optimizer.lr, rate)
        if self.verbose > 0:
            print(f"\nEpoch {epoch + 1:05d}: LearningRateScheduler setting learning rate to {rate}.")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report the rate."""
        if logs is not None:
            logs["lr"] = backend.get_value(self.model.optimizer.lr)


class ReduceLROnPlateau(_Monitor):
    """Multiplies the learning rate by `factor` when a value has not become better for `patience` epochs."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
        **kwargs: Any,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        super().__init__(monitor, mode, kwargs.get("epsilon", min_delta))
        self.factor, self.patience, self.verbose, self.cooldown, self.min_lr = (
            factor,
            patience,
            verbose,
            cooldown,
            min_lr,
        )

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin with nothing seen."""
        self.best, self.cooldown_counter, self.wait = self._worst, 0, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Look at the value."""
        if logs is not None:
            logs["lr"] = backend.get_value(self.model.optimizer.lr)
        current = self._current(logs)
        if current is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.monitor_op(current - self.min_delta, self.best):
            self.best, self.wait = current, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience:
                old = float(backend.get_value(self.model.optimizer.lr))
                if old > self.min_lr:
                    rate = max(old * self.factor, self.min_lr)
                    backend.set_value(self.model.optimizer.lr, rate)
                    if self.verbose > 0:
                        print(f"\nEpoch {epoch + 1:05d}: ReduceLROnPlateau reducing learning rate to {rate}.")
                    self.cooldown_counter, self.wait = self.cooldown, 0
