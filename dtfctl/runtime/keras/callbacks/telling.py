"""Callbacks that tell of training: to functions of the program, files, TensorBoard."""

from __future__ import annotations

import csv
import json
import logging
import os
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.callbacks.base import Callback, _Printer
from dtfctl.runtime.ops import summary as summary_ops

_LOG = logging.getLogger(__name__)


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
        **kwargs: Any,
    ) -> None:
        super().__init__()
        given = {**locals(), **kwargs}
        for name, function in given.items():
            if name in kwargs or (name.startswith("on_") and function is not None):
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
    """Writes loss and metrics where TensorBoard reads them, and histograms of weights.

    Args:
        log_dir: of the event files.
        histogram_freq: after how many epochs the weights' histograms are written; 0 for never.
        write_graph: write the graph too.
        update_freq: "epoch"; "batch", or a number of examples, to write what batches come to as well.
        profile_batch: changes nothing: profiles are written by `dtfctl profile`.
    """

    def __init__(
        self,
        log_dir: str = "./logs",
        histogram_freq: int = 0,
        batch_size: int = 32,
        write_graph: bool = True,
        write_grads: bool = False,
        write_images: bool = False,
        embeddings_freq: int = 0,
        embeddings_layer_names: Any = None,
        embeddings_metadata: Any = None,
        embeddings_data: Any = None,
        update_freq: Any = "epoch",
        profile_batch: Any = 2,
    ) -> None:
        super().__init__()
        if write_grads or write_images or embeddings_freq:
            raise NotImplementedError(
                "tf.keras.callbacks.TensorBoard writes losses, metrics, histograms of weights and the graph; for "
                "gradients, images and embeddings use tf.summary and a tf.summary.FileWriter"
            )
        self.log_dir, self.write_graph, self.histogram_freq = str(log_dir), write_graph, histogram_freq
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self._by_batches = update_freq == "batch"
        self._histograms: Any = None
        self._batches = self._samples = self._written = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the files."""
        from dtfctl.runtime.train.summary_io import FileWriter

        session = state.get_session()
        if self.histogram_freq and self._histograms is None:
            with session.graph.as_default():
                weights = [w for layer in self.model.layers for w in layer.weights]
                found = [summary_ops.histogram(w.name.replace(":", "_"), w, collections=[]) for w in weights]
                self._histograms = summary_ops.merge(found) if found else None
        self.writer = FileWriter(self.log_dir, session.graph if self.write_graph else None)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Write what a batch came to, if it is time."""
        logs = logs or {}
        self._samples += logs.get("size", 1)
        if self.update_freq != "epoch" and (self._by_batches or self._samples - self._written >= int(self.update_freq)):
            found = {f"batch_{name}": value for name, value in logs.items() if name not in ("batch", "size")}
            self._write(found, self._batches if self._by_batches else self._samples)
            self._written = self._samples
        self._batches += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write what came of an epoch."""
        step = epoch if self.update_freq == "epoch" else self._samples
        self._write({f"epoch_{name}": value for name, value in (logs or {}).items()}, step)
        if self._histograms is not None and epoch % self.histogram_freq == 0:
            self.writer.add_summary(state.get_session().run(self._histograms), epoch)
        self.writer.flush()

    def _write(self, values: dict[str, Any], step: int) -> None:
        from dtfctl.protocol.summary_pb2 import Summary

        for name, value in values.items():
            self.writer.add_summary(Summary(value=[Summary.Value(tag=name, simple_value=float(value))]), step)

    def on_train_end(self, logs: Any = None) -> None:
        """Close the files."""
        self.writer.close()


class RemoteMonitor(Callback):
    """Posts what came of each epoch to a server, as JSON.

    Args:
        field: the name of the form's field that has it, unless `send_as_json` says that it is the whole.
    """

    def __init__(
        self,
        root: str = "http://localhost:9000",
        path: str = "/publish/epoch/end/",
        field: str = "data",
        headers: dict[str, str] | None = None,
        send_as_json: bool = False,
    ) -> None:
        super().__init__()
        self.root, self.path, self.field = root, path, field
        self.headers, self.send_as_json = headers, send_as_json

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Post; a server that does not answer is warned of, and training goes on."""
        values = {name: np.asarray(value).item() for name, value in (logs or {}).items()}
        text = json.dumps({"epoch": epoch, **values})
        kind = "application/json" if self.send_as_json else "application/x-www-form-urlencoded"
        body = text if self.send_as_json else urllib.parse.urlencode({self.field: text})
        request = urllib.request.Request(
            self.root + self.path, body.encode(), {"Content-Type": kind, **(self.headers or {})}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=30):
                pass
        except OSError as e:
            _LOG.warning("could not reach RemoteMonitor's server at %s: %s", self.root, e)
