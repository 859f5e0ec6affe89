"""`tf.config.threading`: how many threads sessions of this process use."""

from __future__ import annotations

from dtfctl.runtime.client.device_settings import SETTINGS


def get_intra_op_parallelism_threads() -> int:
    """Return how many threads one op may use; 0 leaves it to the runtime."""
    return SETTINGS.intra_op


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Let one op use so many threads; 0 leaves it to the runtime."""
    SETTINGS.intra_op = _count(num_threads)


def get_inter_op_parallelism_threads() -> int:
    """Return how many ops may run at once; 0 leaves it to the runtime."""
    return SETTINGS.inter_op


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Let so many ops run at once; 0 leaves it to the runtime."""
    SETTINGS.inter_op = _count(num_threads)


def _count(number: int) -> int:
    if number < 0:
        raise ValueError(f"A number of threads is 0 or more: {number}")
    return int(number)
