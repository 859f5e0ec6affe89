"""Settings of Keras: the default type, the place of channels, the small number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Settings:
    epsilon: float = 1e-7
    floatx: str = "float32"
    image_data_format: str = "channels_last"


_settings = _Settings()


def epsilon() -> float:
    """Return the small number that keeps quotients and logarithms finite."""
    return _settings.epsilon


def set_epsilon(value: float) -> None:
    """Set the small number that keeps quotients and logarithms finite."""
    _settings.epsilon = value


def floatx() -> str:
    """Return the name of the default type."""
    return _settings.floatx


def set_floatx(value: str) -> None:
    """Set the default type: "float16", "float32" or "float64"."""
    if value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown floatx type: {value}")
    _settings.floatx = value


def image_data_format() -> str:
    """Return where channels are by default: "channels_last" or "channels_first"."""
    return _settings.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Set where channels are by default."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format}")
    _settings.image_data_format = data_format
