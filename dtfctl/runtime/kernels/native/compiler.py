"""Sketches of regions to functions: compiled by another process, of low priority, and kept.

Nobody waits for a region: who plans asks what is there, runs the rest by kernels, and plans again when all that was
missing has been compiled. It is another process, as writing LLVM's text is Python's work, for which each step would
wait at the interpreter's lock, and as LLVM takes memory that no step needs.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from dtfctl import guard
from dtfctl.runtime.kernels.native import kept
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.kept import Compiled

log = logging.getLogger(__name__)

# A terminal's Ctrl-C is for who started it, with whom it ends.
_PROGRAM = """import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from {} import main
main()"""
# A process that has nothing to compile for so long is ended: what it knows it would have to learn again.
_RESTS_AFTER_S = 15.0
# What is remembered of regions that were compiled or read, or that cannot be compiled.
_MOST_KNOWN = 4096
_MOST_IMAGE = 16 << 20


class Order(Protocol):
    """What is to be compiled: a line of text, and what it is known by."""

    @property
    def text(self) -> str: ...

    @property
    def digest(self) -> str: ...


class Request:
    """Sketches that are being compiled; `is_done` once each of them is or cannot be."""

    def __init__(self, sketches: Sequence[Order]) -> None:
        self.sketches = sketches
        self._done = threading.Event()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def end(self) -> None:
        self._done.set()

    def wait(self, most_s: float) -> bool:
        """Wait until it is done; False where it is not after so many seconds."""
        return self._done.wait(most_s)


class Compiler:
    """What is known of regions in this process.

    Args:
        compile: gives the code of each sketch of a plan as it comes, None where there is none for it.
        rest: called when nothing was to be compiled for a while.
    """

    def __init__(
        self,
        compile: Callable[[Sequence[Any]], Iterator[Compiled | None]],
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._compile, self._rest = compile, rest
        self._known: dict[str, Compiled | None] = {}
        # Regions that differ in numbers only share their code's bytes.
        self._images: dict[Image, Image] = {}
        self._changed = threading.Condition()
        self._waiting: list[Request] = []
        self._thread: threading.Thread | None = None
        self._is_working = False

    def find(self, sketch: Order) -> Compiled | None:
        """Return the code of a region.

        Raises:
            KeyError: it was not compiled yet.
        """
        digest = sketch.digest
        if digest not in self._known:
            found = kept.read(digest)
            if found is None:
                raise KeyError(digest)
            self._remember(digest, found)
        return self._known[digest]

    def request(self, sketches: Iterable[Order]) -> Request:
        """Have sketches of a plan compiled."""
        made = Request(list({s.digest: s for s in sketches}.values()))
        with self._changed:
            self._waiting.append(made)
            # A forked process has what was known, and no thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = guard.once(self._run, name="compile")
                self._thread.start()
            self._changed.notify_all()
        return made

    def finish(self) -> None:
        """Wait until all that was requested is done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_working)

    def _remember(self, digest: str, made: Compiled | None) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._images.clear()
        if made is not None:
            made = replace(made, image=self._images.setdefault(made.image, made.image))
        self._known[digest] = made

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting, _RESTS_AFTER_S)
                requests, self._waiting = self._waiting, []
                if not requests:
                    self._thread = None
                    self._rest()
                    return
                self._is_working = True
            for request in requests:
                guard.call(partial(self._make, request.sketches), "compiling regions")
                request.end()

    def _make(self, sketches: Sequence[Order]) -> None:
        missing = {}
        for sketch in sketches:
            try:
                # Another process may have been faster.
                self.find(sketch)
            except KeyError:
                missing[sketch.digest] = sketch
        for digest, made in zip(missing, self._compile(list(missing.values()))):
            self._remember(digest, made)
            if made is not None:
                kept.keep(digest, made)


class Process:
    """A process that compiles sketches. It ends when it is told to, or with this one.

    Args:
        module: whose `main` it runs.
    """

    def __init__(self, module: str = "dtfctl.runtime.kernels.native.compile") -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._of = 0

    def compile(self, sketches: Sequence[Order]) -> Iterator[Compiled | None]:
        """Compile the sketches of a plan; what cannot be any more ends it."""
        if not sketches or (process := self._started()) is None:
            return
        before = b"\n"
        for sketch in sketches:
            try:
                made = _answer(process, before + sketch.text.encode() + b"\n")
            except (OSError, KeyError, TypeError, ValueError) as e:
                if not _ended.is_set():
                    log.warning("regions are left to kernels, as what compiles them has ended: %s", e)
                self.end()
                return
            before = b""
            yield made

    def _started(self) -> subprocess.Popen[bytes] | None:
        """Return the process, started if there is none that runs; None where there can be none."""
        if self._process is not None and self._of != os.getpid():
            # It is that of the process this one was forked from.
            self._process = None
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._process is not None or _ended.is_set():
            return self._process
        # It imports from where this process does, and else from nowhere: -c alone looks into the working folder first.
        command = [sys.executable, "-P", "-c", _PROGRAM.format(self._module)]
        try:
            path = os.pathsep.join(map(os.path.abspath, sys.path))
            environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        except OSError as e:
            log.warning("regions are not compiled: %s: %s", command[0], e)
            return None
        _running.add(process)
        self._process, self._of = process, os.getpid()
        return process

    def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None or self._of != os.getpid():
            return
        _running.discard(process)
        process.kill()
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            # Of a process that died it has what could not be written.
            process.stdin.close()


def _answer(process: subprocess.Popen[bytes], question: bytes) -> Compiled | None:
    """Ask a process for a region's code; None where there is none for it.

    Raises:
        OSError, KeyError, TypeError, ValueError: it has ended, or what it says is none.
    """
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(question)
    process.stdin.flush()
    head = json.loads(process.stdout.readline(_MOST_IMAGE))
    if "error" in head:
        log.info("a region is left to kernels: %s", head["error"])
        return None
    size = int(head["bytes"])
    code = process.stdout.read(size) if 0 <= size <= _MOST_IMAGE else b""
    if len(code) != size:
        raise ValueError("half of an answer")
    return Compiled.unpacked(head, code)


_running: set[subprocess.Popen[bytes]] = set()
_ended = threading.Event()
_PROCESS = Process()
COMPILER = Compiler(_PROCESS.compile, _PROCESS.end)


@atexit.register
def _end() -> None:
    _ended.set()
    for process in list(_running):
        process.kill()
