"""Coordinates the end of threads: one asks to stop, all stop, one reports why."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dtfctl.runtime.framework.errors import OutOfRangeError


class Coordinator:
    """Shared by threads that must end together.

    Args:
        clean_stop_exception_types: exceptions that mean "done", not "failed"; OutOfRangeError when None.
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        self._clean = tuple(clean_stop_exception_types or (OutOfRangeError,))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._exc_info: Any = None
        self._threads: set[threading.Thread] = set()
        self._joined = False

    def request_stop(self, ex: BaseException | tuple[Any, Any, Any] | None = None) -> None:
        """Ask all threads to stop; with an exception `join` raises it unless it is one of the clean ones.

        Raises:
            The exception itself, when threads were joined already.
        """
        with self._lock:
            info: Any = ex if isinstance(ex, tuple) else None
            if isinstance(ex, BaseException):
                info = (type(ex), ex, ex.__traceback__)
            if info is not None and isinstance(info[1], self._clean):
                info = None
            if self._joined:
                if info is not None:
                    raise info[1]
                return
            if not self._stop.is_set():
                if info is not None and self._exc_info is None:
                    self._exc_info = info
                self._stop.set()

    def clear_stop(self) -> None:
        """Start over: stops and exceptions are forgotten."""
        with self._lock:
            self._joined, self._exc_info = False, None
            self._stop.clear()

    def should_stop(self) -> bool:
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds; whether a stop was requested."""
        return self._stop.wait(timeout)

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turn an exception of the block into a request to stop."""
        try:
            yield
        except Exception:
            self.request_stop(sys.exc_info())

    def register_thread(self, thread: threading.Thread) -> None:
        with self._lock:
            self._threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for all threads to end.

        Raises:
            RuntimeError: some thread still runs this many seconds after the stop was requested.
            The exception given to `request_stop`, if any.
        """
        with self._lock:
            everyone = list(self._threads | set(threads or ()))
        while any(t.is_alive() for t in everyone) and not self.wait_for_stop(1.0):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        while any(t.is_alive() for t in everyone) and time.monotonic() < deadline:
            for t in everyone:
                t.join(0.01 if t.is_alive() else 0)
        with self._lock:
            self._joined = True
            self._threads.clear()
            info = self._exc_info
        if info is not None:
            raise info[1].with_traceback(info[2])
        alive = [t.name for t in everyone if t.is_alive()]
        if alive and not ignore_live_threads:
            raise RuntimeError(
                f"Coordinator stopped with threads still running: {' '.join(alive)} (after {stop_grace_period_secs} s)"
            )

    @property
    def joined(self) -> bool:
        return self._joined

    def raise_requested_exception(self) -> None:
        with self._lock:
            if self._exc_info is not None:
                raise self._exc_info[1].with_traceback(self._exc_info[2])


class LooperThread(threading.Thread):
    """Calls `run_loop` every `timer_interval_secs` (or without pause when None) until its coordinator stops."""

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:
        super().__init__(daemon=True)
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        self._coord, self._interval = coord, timer_interval_secs
        self._loop_target, self._loop_args, self._loop_kwargs = target, args or (), kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator, timer_interval_secs: float | None, target: Any, args: Any = None, kwargs: Any = None
    ) -> LooperThread:
        thread = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        thread.start()
        return thread

    def run(self) -> None:
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                following = time.monotonic()
                while not self._coord.wait_for_stop(max(0.0, following - time.monotonic())):
                    following += self._interval
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once, before the first `run_loop`."""

    def stop_loop(self) -> None:
        """Called once, after the last."""

    def run_loop(self) -> None:
        if self._loop_target is not None:
            self._loop_target(*self._loop_args, **self._loop_kwargs)
