"""Run a client's steps over sockets of its host; the other end is services/client_service.py.

A thread that runs a step writes to sockets and reads the answers there itself. Threads that run steps at the same time
use connections of their own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.net import reasons
from dtfctl.net.pings import SILENT_S
from dtfctl.runtime.client.step_runner import Ask, Signature, StepRunner
from dtfctl.runtime.framework.errors import OpError, UnavailableError
from dtfctl.runtime.steps.path import PathChoice, tell


class LocalSteps:
    """Runs the steps of one session over connections to the tasks of its host.

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
        self._idle: list[StepRunner] = []
        # Of signatures and of parts, which a connection tells apart by them.
        self._numbers = itertools.count(1)
        self._closed = False
        self._lock = threading.Lock()

    def open(self) -> bool:
        """Make the first connection; False where there can be none."""
        try:
            runner = StepRunner(self._session, self._ask)
        except (OSError, OpError):
            return False
        self._idle.append(runner)
        return True

    def function(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], graph_key: int
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """Make a function from fed to fetched values, which runs a step. It raises OpError when the step fails."""
        unique = list(dict.fromkeys(fetches))
        signature = Signature(self._session, next(self._numbers), feeds, unique, targets, graph_key)
        places = None if len(unique) == len(fetches) else [unique.index(f) for f in fetches]

        def run(values: Sequence[Any]) -> list[Any]:
            fetched = self._run(signature, values)
            return fetched if places is None else [fetched[i] for i in places]

        return run

    def _run(self, signature: Signature, values: Sequence[Any]) -> list[Any]:
        runner: StepRunner | None = None
        try:
            try:
                runner = self._idle.pop()
            except IndexError:
                runner = self._new_runner()
            plan = signature.plan
            if plan is None:
                plan = signature.plan = runner.plan(signature, self._numbers)
                self.path = plan.path
                tell(plan.path, signature.feeds, signature.fetches, signature.targets)
            fetched = runner.run(signature, plan, values) if plan.parts else runner.call(signature, values)
        except OSError as e:
            if runner is not None:
                runner.close()
            if isinstance(e, BlockingIOError):
                raise UnavailableError(f"The master at {self._address} {reasons.silent(SILENT_S)} in a step") from None
            raise UnavailableError(f"The master at {self._address} cannot be reached: {reasons.problem(e)}") from None
        except OpError:
            if runner is not None:
                self._put_back(runner, runner.is_spoilt)
            raise
        except BaseException:
            # Interrupted: closing is what tells the tasks to give the step up.
            if runner is not None:
                runner.close()
            raise
        # All was sent as a whole.
        self._put_back(runner, is_spoilt=False)
        return fetched

    def _new_runner(self) -> StepRunner:
        if self._closed:
            raise UnavailableError(f"The session with the master at {self._address} is closed")
        return StepRunner(self._session, self._ask)

    def _put_back(self, runner: StepRunner, is_spoilt: bool) -> None:
        with self._lock:
            if not self._closed and not is_spoilt:
                self._idle.append(runner)
                return
        runner.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for runner in idle:
            runner.close()
