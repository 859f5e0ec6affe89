"""Whoever has TensorBoard."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest


def python_with_tensorboard(*more: str) -> str:
    """Give the interpreter that has TensorBoard, this one or DTF_TEST_TENSORBOARD; skip where there is none."""
    if all(importlib.util.find_spec(name) is not None for name in ("tensorboard", *more)):
        return sys.executable
    found = os.environ.get("DTF_TEST_TENSORBOARD", "")
    if not found:
        pytest.skip("no tensorboard here: pip install it, or name a Python that has it in DTF_TEST_TENSORBOARD")
    missing = [name for name in more if subprocess.run([found, "-c", f"import {name}"], capture_output=True).returncode]
    if missing:
        pytest.skip(f"{found} (DTF_TEST_TENSORBOARD) lacks {' and '.join(missing)}")
    return found
