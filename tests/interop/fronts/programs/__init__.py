"""TF1 programs: each takes `tf`, builds a graph in the default one, and gives (fetches, feeds) pairs to run in turn."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tests.interop.fronts.programs import control, networks, surfaces, training

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    name: function
    for module in (training, networks, control, surfaces)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__
}
