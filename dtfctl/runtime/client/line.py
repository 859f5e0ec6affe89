"""A client's side of the short way to the tasks of its host; see services/client_service.py.

A thread that runs a step writes to sockets and reads the answers there itself. Threads that run steps at the same time
use connections of their own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.client.connection import SILENCE_S
from dtfctl.runtime.client.crew import Ask, Crew, Signature
from dtfctl.runtime.framework.errors import OpError, UnavailableError
from dtfctl.runtime.steps.path import PathChoice, tell


class Line:
    """The short way to the tasks of one session.

    Args:
        session: its handle.
        address: of the master, for messages.
        ask: asks the master for a connection, over gRPC.

    Attributes:
        path: how steps of the signature go that was planned last; None before the first.
    """

    def __init__(self, session: str, address: str, ask: Ask) -> None:
        self.path: PathChoice | None = None
        self._session = session
        self._address = address
        self._ask = ask
        self._idle: list[Crew] = []
        # Of signatures and of parts, which a connection tells apart by them.
        self._numbers = itertools.count(1)
        self._closed = False
        self._lock = threading.Lock()

    def open(self) -> bool:
        """Make the first connection; False where there can be none."""
        try:
            crew = Crew(self._session, self._ask)
        except (OSError, OpError):
            return False
        self._idle.append(crew)
        return True

    def function(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Make a function from fed to fetched values, which runs a step. It raises OpError when the step fails."""
        unique = list(dict.fromkeys(fetches))
        signature = Signature(self._session, next(self._numbers), feeds, unique, targets)
        places = None if len(unique) == len(fetches) else [unique.index(f) for f in fetches]

        def run(values: Sequence[Any]) -> list[Any]:
            fetched = self._run(signature, values)
            return fetched if places is None else [fetched[i] for i in places]

        return run

    def _run(self, signature: Signature, values: Sequence[Any]) -> list[Any]:
        crew: Crew | None = None
        try:
            try:
                crew = self._idle.pop()
            except IndexError:
                crew = self._new_crew()
            plan = signature.plan
            if plan is None:
                plan = signature.plan = crew.plan(signature, self._numbers)
                self.path = plan.path
                tell(plan.path, signature.feeds, signature.fetches, signature.targets)
            fetched = crew.run(signature, plan, values) if plan.parts else crew.call(signature, values)
        except OSError as e:
            if crew is not None:
                crew.close()
            if isinstance(e, BlockingIOError):
                raise UnavailableError(
                    f"The master at {self._address} has been silent for {SILENCE_S} s in a step"
                ) from None
            raise UnavailableError(f"The master at {self._address} cannot be reached: {e.strerror or e}") from None
        except OpError:
            if crew is not None:
                self._put_back(crew)
            raise
        except BaseException:
            # Interrupted: closing is what tells the tasks to give the step up.
            if crew is not None:
                crew.close()
            raise
        self._put_back(crew)
        return fetched

    def _new_crew(self) -> Crew:
        if self._closed:
            raise UnavailableError(f"The session with the master at {self._address} is closed")
        return Crew(self._session, self._ask)

    def _put_back(self, crew: Crew) -> None:
        with self._lock:
            if not self._closed and not crew.is_spoilt:
                self._idle.append(crew)
                return
        crew.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for crew in idle:
            crew.close()
