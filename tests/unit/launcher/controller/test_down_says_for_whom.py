"""`down` waits for hosts, and the controller's log says for which."""

from __future__ import annotations

import logging
from concurrent.futures import Future

import pytest

from dtfctl.launcher.controller.hosts.host_manager import MOST_NAMED, wait_for


def test_the_hosts_that_have_not_ended_are_named(caplog: pytest.LogCaptureFixture) -> None:
    names = ["a", *(f"late{number:02}" for number in range(MOST_NAMED + 2))]
    stops: dict[str, Future[str]] = {name: Future() for name in reversed(names)}
    stops["a"].set_result("")

    class EndOneOnEachLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            next(stop for _, stop in sorted(stops.items()) if not stop.done()).set_result("")

    logger = logging.getLogger("dtfctl.launcher.controller.hosts.host_manager")
    handler = EndOneOnEachLine()
    caplog.set_level(logging.INFO, logger.name)
    logger.addHandler(handler)
    try:
        wait_for(stops, 0.01)
    finally:
        logger.removeHandler(handler)
    said = [record.getMessage() for record in caplog.records]
    first = ", ".join(names[1 : MOST_NAMED + 1])
    assert said[0] == f"down waits for {MOST_NAMED + 2} of {len(names)} hosts: {first}, ..."
    assert said[-1] == f"down waits for 1 of {len(names)} hosts: {names[-1]}"
    assert len(said) == MOST_NAMED + 2
