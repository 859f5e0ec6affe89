"""What is told of an installer that failed."""

from __future__ import annotations

from dtfctl.launcher.agent.start.environments import last_words

PIP = """\
Looking in links: /wheels
WARNING: Retrying (Retry(total=1, connect=None, read=None)) after connection broken by 'NewConnectionError(...)': /a/
WARNING: Retrying (Retry(total=0, connect=None, read=None)) after connection broken by 'NewConnectionError(...)': /a/

ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)
ERROR: No matching distribution found for a==1
"""


def test_the_reason_is_told_and_not_how_often_it_was_tried() -> None:
    assert last_words(PIP) == (
        "Looking in links: /wheels / ERROR: Could not find a version that satisfies the requirement a==1"
        " (from versions: none) / ERROR: No matching distribution found for a==1"
    )


def test_an_installer_that_said_nothing() -> None:
    assert last_words("\n") == ""
