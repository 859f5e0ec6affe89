"""`tf.logging`: the logger named "dtfctl.user", with TF1's function names and levels."""

from __future__ import annotations

import logging
from typing import Any

DEBUG, INFO, WARN, ERROR, FATAL = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL

_logger = logging.getLogger("dtfctl.user")
# Messages about training (rates, recovery) come from here.
_train_logger = logging.getLogger("dtfctl.train")


def get_logger() -> logging.Logger:
    """Return the logger that these functions write to."""
    return _logger


def set_verbosity(v: int) -> None:
    """Show messages from this level on, on stderr."""
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(levelname).1s %(asctime)s %(message)s")
    _logger.setLevel(v)
    _train_logger.setLevel(v)


def get_verbosity() -> int:
    return _logger.getEffectiveLevel()


def log(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    _logger.log(level, msg, *args, **kwargs)


def debug(msg: str, *args: Any, **kwargs: Any) -> None:
    _logger.debug(msg, *args, **kwargs)


def info(msg: str, *args: Any, **kwargs: Any) -> None:
    _logger.info(msg, *args, **kwargs)


def warning(msg: str, *args: Any, **kwargs: Any) -> None:
    _logger.warning(msg, *args, **kwargs)


warn = warning


def error(msg: str, *args: Any, **kwargs: Any) -> None:
    _logger.error(msg, *args, **kwargs)


def fatal(msg: str, *args: Any, **kwargs: Any) -> None:
    _logger.critical(msg, *args, **kwargs)


def vlog(level: int, msg: str, *args: Any, **kwargs: Any) -> None:
    """Log a message of detail `level`; shown when the verbosity is DEBUG or below."""
    _logger.log(DEBUG if level > 0 else INFO, msg, *args, **kwargs)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Log a message, if a condition holds."""
    if condition:
        _logger.log(level, msg, *args)


_counts: dict[str, int] = {}


def _occurrence(msg: str) -> int:
    """Count how often this was asked of a message before."""
    _counts[msg] = _counts.get(msg, -1) + 1
    return _counts[msg]


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log a message the first time, and then each n-th."""
    log_if(level, msg, _occurrence(msg) % n == 0, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log a message the first n times."""
    log_if(level, msg, _occurrence(msg) < n, *args)


def flush() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
