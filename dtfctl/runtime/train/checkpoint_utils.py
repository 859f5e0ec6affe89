"""Looking into checkpoints without a graph: TF1's `NewCheckpointReader`, `load_variable` and kin."""

from __future__ import annotations

import os
from typing import Any

from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.train.checkpoint_management import latest_checkpoint


class CheckpointReader:
    """The tensors of one checkpoint.

    Args:
        prefix: what `Saver.save` returned.

    Raises:
        NotFoundError: no such checkpoint, or, from methods, no such tensor in it.
        DataLossError: a file is damaged.
    """

    def __init__(self, prefix: str) -> None:
        self._reader = BundleReader(os.fspath(prefix))

    def has_tensor(self, name: str) -> bool:
        return self._reader.has(name)

    def get_tensor(self, name: str) -> Any:
        """Return the whole tensor, put together when saved in parts; a single number as itself, text as bytes."""
        value = self._reader.read(name)
        return value if value.shape else value[()]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Shapes by name."""
        return {name: list(self._reader.dtype_and_shape(name)[1]) for name in self._reader.names()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Element types by name."""
        return {name: self._reader.dtype_and_shape(name)[0] for name in self._reader.names()}


def NewCheckpointReader(filepattern: str) -> CheckpointReader:
    return CheckpointReader(filepattern)


def load_checkpoint(ckpt_dir_or_file: str) -> CheckpointReader:
    """Open a checkpoint, or the newest in a folder, for reading.

    Raises:
        ValueError: the folder has none.
    """
    path = os.fspath(ckpt_dir_or_file)
    if not os.path.isdir(path):
        return CheckpointReader(path)
    newest = latest_checkpoint(path)
    if newest is None:
        raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")
    return CheckpointReader(newest)


def load_variable(ckpt_dir_or_file: str, name: str) -> Any:
    """Return the value of one variable; ":0" may be appended to its name."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: str) -> list[tuple[str, list[int]]]:
    """(name, shape) of all variables, by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())
