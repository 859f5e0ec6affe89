"""What all unit tests share: the plans they see do not depend on which regions this user has had compiled before."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave regions out; tests of regions ask for them."""
    os.environ["DTF_NATIVE"] = "0"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    os.environ.pop("DTF_NATIVE", None)
