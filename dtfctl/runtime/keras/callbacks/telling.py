"""Callbacks that tell of training: to functions of the program, files, TensorBoard."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.callbacks.base import Callback, _Printer


class BaseLogger(Callback):
    """Does nothing: what the batches come to is summed up by the model."""

    def __init__(self, stateful_metrics: Any = None) -> None:
        super().__init__()


class ProgbarLogger(_Printer):
    """Prints a line an epoch."""

    def __init__(self, count_mode: str = "samples", stateful_metrics: Any = None) -> None:
        super().__init__(1)


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_batch_begin: Callable[..., Any] | None = None,
        on_batch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        for name, function in list(locals().items()):
            if name.startswith("on_") and function is not None:
                setattr(self, name, function)


class CSVLogger(Callback):
    """Writes a line of values an epoch to a file."""

    def __init__(self, filename: str, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.sep, self.append = str(filename), separator, append

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the file."""
        self._headed = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self._file = open(self.filename, "a" if self.append else "w", newline="")  # noqa: SIM115
        self._names: list[str] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write a line."""
        logs = logs or {}
        writer = csv.writer(self._file, delimiter=self.sep)
        if not self._names:
            self._names = sorted(logs)
            if not self._headed:
                writer.writerow(["epoch", *self._names])
        writer.writerow([epoch, *(logs.get(name, "NA") for name in self._names)])
        self._file.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard(Callback):
    """Writes loss and metrics of each epoch where TensorBoard reads them.

    Args:
        log_dir: of the event files.
        write_graph: write the graph too.
    """

    def __init__(
        self,
        log_dir: str = "./logs",
        histogram_freq: int = 0,
        batch_size: int = 32,
        write_graph: bool = True,
        write_grads: bool = False,
        write_images: bool = False,
        update_freq: Any = "epoch",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if histogram_freq or write_grads or write_images or update_freq != "epoch" or kwargs:
            raise NotImplementedError(
                "tf.keras.callbacks.TensorBoard writes losses, metrics and the graph; for histograms and images use "
                "tf.summary and a tf.summary.FileWriter"
            )
        self.log_dir, self.write_graph = str(log_dir), write_graph

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the files."""
        from dtfctl.runtime.train.summary_io import FileWriter

        self.writer = FileWriter(self.log_dir, state.get_session().graph if self.write_graph else None)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write what came of an epoch."""
        from dtfctl.protocol.summary_pb2 import Summary

        for name, value in (logs or {}).items():
            summary = Summary(value=[Summary.Value(tag=f"epoch_{name}", simple_value=float(value))])
            self.writer.add_summary(summary, epoch)
        self.writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Close the files."""
        self.writer.close()


class RemoteMonitor(Callback):
    """A callback that is not supported: it says what to use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("tf.keras.callbacks.RemoteMonitor is not supported: send logs in a LambdaCallback")
