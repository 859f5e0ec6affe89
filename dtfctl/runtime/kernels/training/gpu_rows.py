"""Optimizer updates of single rows on a GPU; repeated rows are applied one after the other, as on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.cuda.arrays import contiguous, sorted_rows
from dtfctl.runtime.kernels.cuda.launch import launch


@dataclass(frozen=True)
class _Rule:
    """A kernel of sparse_apply.cu: its name, its scalars and then its flags, each with what an op without it means."""

    kernel: str
    scalars: Mapping[str, float]
    flags: Mapping[str, bool]


_ADAGRAD = _Rule("sparse_adagrad", {"lr": 0, "epsilon": 0}, {"update_slots": True})
_FTRL_SCALARS = {"lr": 0, "l1": 0, "l2": 0, "lr_power": 0, "l2_shrinkage": 0}
_FTRL = _Rule("sparse_ftrl", _FTRL_SCALARS, {"multiply_linear_by_lr": False})
GPU_ROW_RULES: Mapping[str, _Rule] = {
    "Momentum": _Rule("sparse_momentum", {"lr": 0, "momentum": 0}, {"use_nesterov": False}),
    "Adagrad": _ADAGRAD,
    "AdagradV2": _ADAGRAD,
    "RMSProp": _Rule("sparse_rms_prop", {"lr": 0, "rho": 0, "momentum": 0, "epsilon": 0}, {}),
    "Ftrl": _FTRL,
    "FtrlV2": _FTRL,
}


def apply_rows_on_gpu(
    xp: Any, core: str, arrays: Sequence[Any], grad: Any, indices: Any, settings: Mapping[str, Any]
) -> None:
    """Update the rows `indices` of a variable and its slots in place; rows out of range are left out.

    Args:
        core: the op's name without its prefixes, one of GPU_ROW_RULES.
        settings: hyperparameters, as host scalars, and flags, by TensorFlow's names.
    """
    rule, var = GPU_ROW_RULES[core], arrays[0]
    order, rows = sorted_rows(xp, indices)
    scalars = [var.dtype.type(settings.get(name, default)) for name, default in rule.scalars.items()]
    flags = [np.int64(settings.get(name, default)) for name, default in rule.flags.items()]
    inner = prod(var.shape[1:])
    arguments = (*arrays, contiguous(xp, grad), order, rows, indices.size, inner, var.shape[0], *scalars, *flags)
    types = {"element": var.dtype.name, "index": rows.dtype.name}
    launch(xp, "sparse_apply", rule.kernel, indices.size * inner, arguments, **types)
