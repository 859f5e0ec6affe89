"""`tensorflow.python.util.all_util`: which names of a module are public."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


def make_all(module_name: str, doc_string_modules: Sequence[Any] | None = None) -> list[str]:
    """Return a module's names that begin with no underscore."""
    return [name for name in dir(sys.modules[module_name]) if not name.startswith("_")]


def remove_undocumented(
    module_name: str,
    allowed_exception_list: Sequence[str] | None = None,
    doc_string_modules: Sequence[Any] | None = None,
) -> None:
    """Leave a module as it is: which names TensorFlow's build documents is not known here."""


reveal_undocumented = remove_undocumented
