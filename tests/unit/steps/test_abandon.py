"""Who waits for a step is answered when it was told to end, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError
from dtfctl.runtime.steps import abandon
from dtfctl.runtime.steps.grace import ENDED


def test_a_step_that_cleans_up_after_itself_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up: list[Callable[[], Any]] = []
    monkeypatch.setattr(abandon.DEADLINES, "after", lambda seconds, answer: given_up.append(answer))
    token = CancellationToken()

    def work() -> str:
        token.cancel(ENDED)
        return "its value"

    assert abandon.apart(work, token) == "its value"
    assert not given_up


def test_a_step_that_was_told_to_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandon.DEADLINES, "after", lambda seconds, answer: answer())
    token, over = CancellationToken(), threading.Event()

    def work() -> None:
        token.cancel(CancelledError("told"))
        over.wait()

    try:
        with pytest.raises(CancelledError, match="told"):
            abandon.apart(work, token)
    finally:
        over.set()
