"""Makes this Python count references as another one, in every process that has this folder on its path.

`DTF_TEST_COUNTS` says how: "blind", where each value counts the same whoever holds it; "borrowing", as 3.14, which
counts none for arguments and locals that only pass a value on; "free-threaded", where threads run at the same time.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

_KIND = os.environ.get("DTF_TEST_COUNTS")
_true_count, _true_config = sys.getrefcount, sysconfig.get_config_var
# What this Python counts of a value on its way from `is_sole`'s caller to the count, with the function below.
_ON_THE_WAY = 3


def _borrowing(value: Any) -> int:
    return _true_count(value) - _ON_THE_WAY


def _config(name: str) -> Any:
    return 1 if name == "Py_GIL_DISABLED" else _true_config(name)


if _KIND == "blind":
    sys.getrefcount = lambda value, /: 2
elif _KIND == "borrowing":
    sys.getrefcount = _borrowing
elif _KIND == "free-threaded":
    sysconfig.get_config_var = _config
