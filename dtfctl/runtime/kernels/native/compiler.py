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
from functools import partial

from dtfctl import guard
from dtfctl.runtime.kernels.native import kept
from dtfctl.runtime.kernels.native.kept import Compiled
from dtfctl.runtime.kernels.native.sketch import Sketch

log = logging.getLogger(__name__)

# A terminal's Ctrl-C is for who started it, with whom it ends.
_PROGRAM = """import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from dtfctl.runtime.kernels.native.compile import main
main()"""
# What is remembered of regions that were compiled or read, or that cannot be compiled.
_MOST_KNOWN = 4096
_MOST_IMAGE = 16 << 20


class Request:
    """Sketches that are being compiled; `is_done` once each of them is or cannot be."""

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self.sketches = sketches
        self.is_done = False


class Compiler:
    """What is known of regions in this process.

    Args:
        compile: gives the code of each sketch as it comes, None where there is none for it.
    """

    def __init__(self, compile: Callable[[Sequence[Sketch]], Iterator[Compiled | None]]) -> None:
        self._compile = compile
        self._known: dict[str, Compiled | None] = {}
        self._lock = threading.Lock()
        self._waiting: list[Request] = []
        self._thread: threading.Thread | None = None

    def find(self, sketch: Sketch) -> Compiled | None:
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

    def request(self, sketches: Iterable[Sketch]) -> Request:
        """Have sketches compiled."""
        made = Request(list({s.digest: s for s in sketches}.values()))
        with self._lock:
            self._waiting.append(made)
            # A forked process has what was known, and no thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = guard.once(self._run, name="compile")
                self._thread.start()
        return made

    def finish(self) -> None:
        """Wait until all that was requested is done."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _remember(self, digest: str, made: Compiled | None) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[digest] = made

    def _run(self) -> None:
        while True:
            with self._lock:
                requests, self._waiting = self._waiting, []
                if not requests:
                    self._thread = None
                    return
            guard.call(partial(self._make, [s for r in requests for s in r.sketches]), "compiling regions")
            for request in requests:
                request.is_done = True

    def _make(self, sketches: list[Sketch]) -> None:
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


def by_process(sketches: Sequence[Sketch]) -> Iterator[Compiled | None]:
    """Compile sketches by a process that ends when it has, or with this one."""
    if not sketches or _ended.is_set():
        return
    # It imports from where this process does, and else from nowhere: -c alone looks into the working folder first.
    command = [sys.executable, "-P", "-c", _PROGRAM]
    try:
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    except OSError as e:
        log.warning("regions are not compiled: %s: %s", command[0], e)
        return
    _running.add(process)
    try:
        yield from _answers(process, sketches)
    finally:
        _running.discard(process)
        process.kill()
        process.wait()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            # Of a process that died it has what could not be written.
            process.stdin.close()


def _answers(process: subprocess.Popen[bytes], sketches: Sequence[Sketch]) -> Iterator[Compiled | None]:
    assert process.stdin is not None and process.stdout is not None
    with process.stdout:
        for sketch in sketches:
            try:
                process.stdin.write(sketch.text.encode() + b"\n")
                process.stdin.flush()
                head = json.loads(process.stdout.readline(_MOST_IMAGE))
                if "error" in head:
                    log.info("a region is left to kernels: %s", head["error"])
                    yield None
                    continue
                size = int(head["bytes"])
                code = process.stdout.read(size) if 0 <= size <= _MOST_IMAGE else b""
                if len(code) != size:
                    raise ValueError("half of an answer")
                yield Compiled.unpacked(head, code)
            except (OSError, KeyError, TypeError, ValueError) as e:
                if not _ended.is_set():
                    log.warning("regions are left to kernels, as what compiles them has ended: %s", e)
                return


_running: set[subprocess.Popen[bytes]] = set()
_ended = threading.Event()
COMPILER = Compiler(by_process)


@atexit.register
def _end() -> None:
    _ended.set()
    for process in list(_running):
        process.kill()
