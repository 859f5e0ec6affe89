"""Commands of `exec`: each one runs under a guard, and nothing of it outlives the stream that asked for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

from dtfctl import guard
from dtfctl.launcher.agent.start.launch import Surroundings
from dtfctl.launcher.errors import Conflict, InternalError, UsageError
from dtfctl.launcher.messages.commands import (
    EndOfInput,
    ExecInput,
    ExecOutput,
    ExecStart,
    Exited,
    Input,
    Output,
    Signal,
    Stream,
    TerminalSize,
)
from dtfctl.launcher.rpc.server import Call
from dtfctl.net.descriptors import VARIABLE, usual_limit

GUARD = Path(__file__).with_name("command_guard.py")
CHUNK_BYTES = 64 * 1024
MOST_FRAMES = 64
"""Frames that wait for a slow reader; then the command waits too."""
MOST_COMMANDS = 24
END_S = 10.0
END_OF_FILE = b"\x04"
"""What a terminal takes for the end of its input."""


class Commands:
    """The commands that run on this host now."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(MOST_COMMANDS)

    def run(
        self, start: ExecStart, inputs: Iterator[ExecInput], call: Call, around: Surroundings
    ) -> Iterator[ExecOutput]:
        """Run `start.command`; its output as it comes, then its exit code.

        Raises:
            UsageError: no command. Conflict: too many run already.
        """
        if not start.command:
            raise UsageError("no command to run", "for example: dtfctl exec worker/0 -- hostname")
        if not self._slots.acquire(blocking=False):
            raise Conflict(f"{MOST_COMMANDS} commands run on this host already", "wait until one has ended")
        try:
            command = _Command(start, around)
            call.on_end(command.hang_up)
            yield from command.outputs(inputs)
        finally:
            self._slots.release()


class _Command:
    def __init__(self, start: ExecStart, around: Surroundings) -> None:
        self._frames: queue.Queue[ExecOutput | None] = queue.Queue(MOST_FRAMES)
        self._over = threading.Event()
        self._control_lock = threading.Lock()
        control, self._control = os.pipe2(os.O_CLOEXEC)
        env = {**around.env, VARIABLE: str(usual_limit())}
        self._terminal = -1
        slave = -1
        if start.terminal:
            self._terminal, slave = os.openpty()
            self._resize(start.size)
            env["TERM"] = start.term or "xterm"
        piped = subprocess.PIPE if slave < 0 else slave
        try:
            self._guard = subprocess.Popen(
                [
                    *(sys.executable, "-S", "-E", str(GUARD), str(control)),
                    *("1" if start.terminal else "0", str(around.folder), *start.command),
                ],
                stdin=piped,
                stdout=piped,
                stderr=piped,
                env=env,
                pass_fds=(control,),
                start_new_session=True,
                cwd="/",
            )
        except (OSError, ValueError) as error:  # a NUL in a word, an environment too large
            os.close(self._control)
            raise UsageError(f"cannot run {start.command[0]!r}: {error}") from None
        finally:
            os.close(control)
            if slave >= 0:
                os.close(slave)

    # ------------------------------------------------------------------ what it writes

    def outputs(self, inputs: Iterator[ExecInput]) -> Iterator[ExecOutput]:
        sources = self._sources()
        readers = [guard.once(self._read, args=(fd, name), name="exec-read") for name, fd in sources]
        guard.once(self._feed, args=(inputs,), name="exec-feed").start()
        try:
            for reader in readers:
                reader.start()
            left = len(readers)
            while left:
                frame = self._frames.get()
                if frame is None:
                    left -= 1
                else:
                    yield frame
            code = self._guard.wait()  # negative where the guard itself was killed, as `pkill -f` may do
            yield ExecOutput(Exited(code if code >= 0 else 128 - code))
        finally:
            self.hang_up()
            self._over.set()
            self._drain()
            try:
                self._guard.wait(END_S)
            except subprocess.TimeoutExpired:
                raise InternalError(f"the guard of process {self._guard.pid} does not end") from None
            finally:
                for reader in readers:
                    reader.join(END_S)
                for stream in (self._guard.stdin, self._guard.stdout, self._guard.stderr):
                    if stream is not None:
                        # What is still to be written to a command that is gone goes nowhere.
                        with contextlib.suppress(OSError):
                            stream.close()
                if self._terminal >= 0:
                    os.close(self._terminal)

    def _sources(self) -> list[tuple[Stream, int]]:
        if self._terminal >= 0:
            return [("out", self._terminal)]
        assert self._guard.stdout is not None
        assert self._guard.stderr is not None
        return [("out", self._guard.stdout.fileno()), ("err", self._guard.stderr.fileno())]

    def _read(self, fd: int, name: Stream) -> None:
        while not self._over.is_set():
            try:
                data = os.read(fd, CHUNK_BYTES)
            except OSError:  # EIO: nobody has the terminal open any more
                data = b""
            if not data:
                break
            self._put(ExecOutput(Output(data, name)))
        self._put(None)

    def _put(self, frame: ExecOutput | None) -> None:
        while not self._over.is_set():
            try:
                self._frames.put(frame, timeout=0.2)
                return
            except queue.Full:
                continue

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._frames.get_nowait()

    # ------------------------------------------------------------------ what it is given

    def _feed(self, inputs: Iterator[ExecInput]) -> None:
        try:
            for item in inputs:
                self._give(item)
        except Exception:
            # The stream broke, or the command does not read any more: the end of one is the end of the other.
            self._close_input()
            return

    def _give(self, item: ExecInput) -> None:
        match item.what:
            case Input(data):
                view = memoryview(data)
                while view:
                    view = view[os.write(self._input(), view) :]
            case EndOfInput():
                self._close_input()
            case TerminalSize():
                self._resize(item.what)
            case Signal(number):
                with self._control_lock:
                    if self._control >= 0:
                        os.write(self._control, bytes([number]))

    def _input(self) -> int:
        if self._terminal >= 0:
            return self._terminal
        assert self._guard.stdin is not None
        return self._guard.stdin.fileno()

    def _close_input(self) -> None:
        if self._terminal >= 0:
            with contextlib.suppress(OSError):
                os.write(self._terminal, END_OF_FILE)
        elif self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()

    def _resize(self, size: TerminalSize) -> None:
        if self._terminal >= 0 and size.rows > 0 and size.columns > 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))

    def hang_up(self) -> None:
        """Let the guard end everything; any thread, any number of times."""
        with self._control_lock:
            if self._control >= 0:
                os.close(self._control)
                self._control = -1
