"""HDF5 files as Keras writes them: values of variables by layer, and lists of names however long."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dtfctl.durable import whole_file
from dtfctl.runtime.checkpoint.atomic import READABLE
from dtfctl.runtime.keras.backend.values import batch_set_value

MOST_BYTES = 64512
"""An attribute of an HDF5 file may be so long; longer lists are in several."""


def is_hdf5(path: str, save_format: str | None) -> bool:
    """Tell whether a file of this name is meant to be HDF5.

    Raises:
        ValueError: there is no such format.
    """
    if save_format in ("h5", "hdf5", "keras"):
        return True
    if save_format in ("tf", "tensorflow"):
        return False
    if save_format is not None:
        raise ValueError(f"Unknown format `{save_format}`. Was expecting one of: tf, h5")
    return path.endswith((".h5", ".keras", ".hdf5"))


def opened(file: str | BinaryIO, mode: str) -> Any:
    """Open a file, by its name or one that is open already.

    Raises:
        ImportError: h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise ImportError(
            "HDF5 files need h5py: install it (pip install h5py), or save the weights as a checkpoint, with a name "
            "that does not end in .h5 or save_format='tf'"
        ) from None
    return h5py.File(file, mode)


@contextlib.contextmanager
def replaced(path: str) -> Iterator[Any]:
    """Write a file that takes the place of one of its name when it is whole; whose folder is made, if need be."""
    if folder := os.path.dirname(path):
        os.makedirs(folder, exist_ok=True)
    with whole_file(Path(path), READABLE) as whole, opened(whole, "w") as file:
        yield file


def write_names(group: Any, attribute: str, names: Sequence[str]) -> None:
    """Write a list of names as an attribute, or as several."""
    encoded = [name.encode() for name in names]
    longest = max((len(name) for name in encoded), default=0)
    if longest * len(encoded) <= MOST_BYTES:
        group.attrs[attribute] = encoded
        return
    if longest > MOST_BYTES:
        raise ValueError(f"A name of {longest} bytes cannot be written to an HDF5 file: it takes {MOST_BYTES}")
    each = MOST_BYTES // longest
    for number, begin in enumerate(range(0, len(encoded), each)):
        group.attrs[f"{attribute}{number}"] = encoded[begin : begin + each]


def read_names(group: Any, attribute: str) -> list[str]:
    """Read a list of names that `write_names` wrote."""
    parts = [attribute] if attribute in group.attrs else []
    while parts[:1] != [attribute] and f"{attribute}{len(parts)}" in group.attrs:
        parts.append(f"{attribute}{len(parts)}")
    return [n.decode() if isinstance(n, bytes) else str(n) for part in parts for n in group.attrs[part]]


def write_values(group: Any, names: Sequence[str], values: Sequence[Any]) -> None:
    """Write the values of variables."""
    write_names(group, "weight_names", names)
    for name, value in zip(names, values):
        group.create_dataset(name, data=value)


def read_values(group: Any) -> list[Any]:
    """Read the values of variables, in their order."""
    return [np.asarray(group[name]) for name in read_names(group, "weight_names")]


def write_layers(group: Any, model: Any) -> None:
    """Write the variables of a model, by layer."""
    write_names(group, "layer_names", [layer.name for layer in model.layers])
    group.attrs["backend"], group.attrs["keras_version"] = b"tensorflow", b"2.2.4-tf"
    for layer in model.layers:
        write_values(group.create_group(layer.name), [w.name for w in layer.weights], layer.get_weights())


def read_layers(group: Any, model: Any, by_name: bool) -> None:
    """Give the variables of a model the values of a file, layer after layer or by the layers' names.

    Raises:
        ValueError: the file is of another model.
    """
    names = [n for n in read_names(group, "layer_names") if read_names(group[n], "weight_names")]
    layers = [layer for layer in model.layers if layer.weights]
    if not by_name and len(names) != len(layers):
        raise ValueError(
            f"You are trying to load a weight file containing {len(names)} layers into a "
            f"model with {len(layers)} layers."
        )
    by = {layer.name: layer for layer in layers}
    pairs = [(n, by.get(n)) for n in names] if by_name else list(zip(names, layers))
    values = []
    for name, layer in pairs:
        if layer is None:
            continue
        found = layer._adapted(read_values(group[name]))
        if len(found) != len(layer.weights):
            raise ValueError(f"Layer {layer.name} expects {len(layer.weights)} weights, but the file has {len(found)}")
        values += list(zip(layer.weights, found))
    batch_set_value(values)
