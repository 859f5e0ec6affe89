"""Where variables begin: another checkpoint's values."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from dtfctl.runtime import api as tf


class WarmStartSettings(NamedTuple):
    """Which variables begin with a checkpoint's values.

    Args:
        ckpt_to_initialize_from: a checkpoint, or a folder whose newest is taken.
        vars_to_warm_start: a regular expression of trainable variables' names, a list of such for all variables,
            a list of variables, or None for none.
        var_name_to_vocab_info: must be empty: vocabularies are not remapped.
        var_name_to_prev_var_name: other names in the checkpoint.
    """

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Any = None
    var_name_to_prev_var_name: Any = None

    def checkpoint(self) -> str | None:
        """Return the checkpoint."""
        path = os.fspath(self.ckpt_to_initialize_from)
        return tf.train.latest_checkpoint(path) if os.path.isdir(path) else path

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


def warm_start(
    ckpt_to_initialize_from: str,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Any = None,
    var_name_to_prev_var_name: Any = None,
) -> None:
    """Have variables' initializers read a checkpoint; arguments as of WarmStartSettings.

    Raises:
        ValueError: a vocabulary is to be remapped, or the checkpoint lacks a variable.
    """
    if var_name_to_vocab_info:
        raise ValueError("vocabularies are not remapped here: name the variables in var_name_to_prev_var_name")
    renamed = dict(var_name_to_prev_var_name or {})
    assigned = {}
    for variable in _chosen(vars_to_warm_start):
        info = variable._get_save_slice_info()
        name = info.full_name if info else variable.op.name
        assigned[renamed.get(name, name)] = name
    if assigned:
        tf.train.init_from_checkpoint(ckpt_to_initialize_from, assigned)


def _chosen(which: Any) -> list[Any]:
    if which is None:
        return []
    if isinstance(which, str):
        return [v for v in tf.trainable_variables() if re.match(which, v.op.name)]
    found: list[Any] = []
    for one in which:
        named = [v for v in tf.global_variables() if re.match(one, v.op.name)] if isinstance(one, str) else [one]
        found += [v for v in named if v not in found]
    return found
