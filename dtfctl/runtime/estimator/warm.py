"""Where variables begin: another checkpoint's values."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from dtfctl.runtime.train.checkpoint_management import latest_checkpoint
from dtfctl.runtime.train.warm_starting import warm_start


class WarmStartSettings(NamedTuple):
    """Which variables begin with a checkpoint's values.

    Args:
        ckpt_to_initialize_from: a checkpoint, or a folder whose newest is taken.
        vars_to_warm_start: a regular expression of trainable variables' names, a list of such for all variables,
            a list of variables, or None for none.
        var_name_to_vocab_info: VocabInfo by the names of variables whose rows follow a vocabulary.
        var_name_to_prev_var_name: other names in the checkpoint.
    """

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Any = None
    var_name_to_prev_var_name: Any = None

    def checkpoint(self) -> str | None:
        """Return the checkpoint."""
        path = os.fspath(self.ckpt_to_initialize_from)
        return latest_checkpoint(path) if os.path.isdir(path) else path

    def apply(self) -> None:
        """Have the variables' initializers read the checkpoint."""
        warm_start(*self)


def warm_start_settings(given: Any) -> WarmStartSettings | None:
    """Return settings of a path, or as they are.

    Raises:
        ValueError: it is neither.
    """
    if given is None or isinstance(given, WarmStartSettings):
        return given
    if isinstance(given, (str, bytes, os.PathLike)):
        return WarmStartSettings(os.fsdecode(given))
    raise ValueError(f"warm_start_from must be a string or a WarmStartSettings, instead got {type(given)}")
