"""Find a Python that drives a browser."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest


def python_with(*packages: str) -> str:
    """Give the interpreter that has packages, this one or DTF_TEST_BROWSER; skip where there is none, or no browser."""
    if shutil.which("chromium") is None:
        pytest.skip("no chromium: apt install chromium")
    if all(importlib.util.find_spec(name) is not None for name in packages):
        return sys.executable
    found, names = os.environ.get("DTF_TEST_BROWSER", ""), " ".join(packages)
    if not found:
        pytest.skip(f"no {names} here: pip install {names}, or name a Python that has it in DTF_TEST_BROWSER")
    if subprocess.run([found, "-c", f"import {', '.join(packages)}"], capture_output=True).returncode:
        pytest.skip(f"{found} (DTF_TEST_BROWSER) lacks one of: {names}")
    return found
