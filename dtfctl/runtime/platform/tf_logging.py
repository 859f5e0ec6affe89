"""`tf.logging`: the logger named "dtfctl.user", with TF1's function names and levels."""

from __future__ import annotations

import logging
from typing import Any

DEBUG, INFO, WARN, ERROR, FATAL = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL

_logger = logging.getLogger("dtfctl.user")
# Messages about training (rates, recovery) come from here.
_train_logger = logging.getLogger("dtfctl.train")


def set_verbosity(level: int) -> None:
    """Show messages from this level on, on stderr."""
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(levelname).1s %(asctime)s %(message)s")
    _logger.setLevel(level)
    _train_logger.setLevel(level)


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


def flush() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
