"""UCX for tests: 330 MB that only those install who ask for it.

DTF_TEST_UCX=install has pip put `ucxx-cu13` into .test-ucx of the checkout, where later runs find it;
DTF_TEST_UCX=FOLDER names site-packages that have it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtfctl.net import ucx

_HERE = Path(__file__).parents[2] / ".test-ucx"
_TRANSPORTS = {"ucx-tcp": "tcp", "ucx-sm": "sm,self,tcp"}


def _missing() -> str:
    """Look for UCX, and install it if that is wanted; why it cannot be used, or nothing."""
    wanted = os.environ.get("DTF_TEST_UCX", "")
    if wanted == "install" and not (_HERE / "ucxx").exists():
        # Without them a half of it would be found the next time.
        part = _HERE.with_name(f"{_HERE.name}-{os.getpid()}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(part), "ucxx-cu13>=0.52"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"pip cannot install ucxx-cu13: {done.stderr.strip()[-300:]}"
        if not _HERE.exists():
            part.rename(_HERE)
    folder = Path(wanted) if wanted not in ("", "install") else _HERE
    if folder.exists() and importlib.util.find_spec("ucxx") is None:
        # At the end: it brings a numpy of its own.
        sys.path.append(str(folder))
    try:
        ucx.binding()
    except ucx.NoUcx as e:
        return f"{e} (DTF_TEST_UCX=install does that for tests)"
    return ""


MISSING = _missing()
OVER_UCX = [pytest.param(kind, marks=pytest.mark.skipif(bool(MISSING), reason=MISSING)) for kind in _TRANSPORTS]
"""Parameters for each way of UCX that every machine has."""


def use_ucx(kind: str) -> None:
    """Have this process's UCX use one of them from now on."""
    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    if os.environ.get(ucx.VARIABLE) != _TRANSPORTS[kind]:
        os.environ[ucx.VARIABLE] = _TRANSPORTS[kind]
        ucx.context.cache_clear()
