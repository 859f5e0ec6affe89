"""TensorFlow 1 programs that run unchanged on both runtimes.

Each module has `build(tf, target, **params) -> Program`, where `tf` is `tensorflow.compat.v1` or `dtfctl.runtime` and
`target` the session's target ("" for in-process). Modules import nothing but this one, numpy and the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Program:
    """What is measured.

    Attributes:
        step: runs it once. Returns None, or the seconds that count where not all of the call does.
        values: brings the state back to the start, runs it and returns numbers that both runtimes must agree on.
        close: ends its sessions.
        reports: figures the program takes of itself, asked for after the rounds.
    """

    step: Callable[[], float | None]
    values: Callable[[], list[float]]
    close: Callable[[], None]
    reports: Callable[[], dict[str, float]] | None = None


def session_config(tf: Any, as_written: bool = False, tasks: tuple[str, ...] = ()) -> Any:
    """A ConfigProto.

    Args:
        as_written: switch the graph optimiser off, where it would delete what is measured.
        tasks: the only tasks ("/job:ps/task:0") the session may use; all by default.
    """
    config = tf.ConfigProto(allow_soft_placement=False)
    if as_written:
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.device_filters.extend(tasks)
    return config


def tasks_of(ps: int, workers: int) -> tuple[str, ...]:
    """The device filters of a cluster's first tasks."""
    return (*(f"/job:ps/task:{i}" for i in range(ps)), *(f"/job:worker/task:{i}" for i in range(workers)))


def sample(tf: Any, tensor: Any, size: int, count: int = 64) -> Any:
    """Some elements, from all over a vector of `size`."""
    return tf.strided_slice(tensor, [0], [size], [max(size // count, 1)])
