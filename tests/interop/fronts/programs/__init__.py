"""TF1 programs: each takes `tf`, builds a graph in the default one, and gives (fetches, feeds) pairs to run in turn.

`PROGRAMS` are judged by TensorFlow 2.21; `OLDER`, made of what it has no more or does no more as graphs, by 1.15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.interop.fronts.programs import (
    control,
    distributions,
    feature_columns,
    found,
    models,
    networks,
    normalizing,
    surfaces,
    training,
    translation,
)


def _programs(*modules: ModuleType) -> dict[str, Callable[[Any], Any]]:
    return {
        name: function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }


PROGRAMS = _programs(training, networks, control, surfaces, found, models, normalizing)
OLDER = _programs(distributions, feature_columns, translation)
