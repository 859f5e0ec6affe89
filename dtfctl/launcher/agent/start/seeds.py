"""Seeds, as the agent sees them: processes with the runtime imported, of which tasks are forks (`dtfctl/seed.py`).

Importing the runtime takes most of the CPU time in which a task starts. A seed imports it once; its forks start in a
twentieth of that, share its memory, and differ from tasks that were started as programs in nothing that they can see.

There is a seed for each interpreter and environment, since libraries read variables when they are imported. What
differs from task to task (`OF_EACH_TASK`) is read later and set in the fork. A seed is asked for one keeper after the
other, and its answer carries the keeper's pidfd. One that dies takes no task with it. Where it died over its work, or
cannot be made, the agent's log says why and tasks are started as programs for a while.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from dtfctl import guard
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.system.files import private_folder
from dtfctl.values import value

log = logging.getLogger(__name__)

OWN_PROGRAM = ("-m", "dtfctl.task")
"""What tasks are started with that can be forks."""
OF_EACH_TASK = ("DTF_JOB_NAME", "DTF_TASK_INDEX", "CUDA_VISIBLE_DEVICES")
"""Variables that nothing reads when it is imported."""
IDLE_S = 60.0
"""How long a seed of which no task runs is kept. While tasks run it shares their memory and costs next to none."""
WITHOUT_S = 60.0
"""How long tasks are started as programs after a seed has failed."""
ANSWER_S = 10.0
"""How long a seed that is ready may take over one fork before it is given up."""
END_S = 1.0
"""Between the end of its socket and of the process."""
AT_ONCE = 8
"""Requests that a seed may have before it: they stay in the socket's buffer and do not hold up the agent."""
TITLE_BYTES = 2048
"""Room for the command that forks show in its place."""
LARGEST_MESSAGE = 1 << 16

Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


@value
class Request:
    """What a seed is asked for: a keeper, and a task under it."""

    number: int
    keeper: tuple[str, ...]
    """The arguments of `keeper.py`."""
    shown: tuple[str, ...]
    """The command that started it as a program."""
    env: Mapping[str, str]
    """The values of `OF_EACH_TASK`."""
    cwd: str


@value
class Reply:
    """A seed's word: that it is ready (no number), or the pid of a keeper, whose pidfd comes with it."""

    number: int = 0
    pid: int = 0
    changed: str = ""
    """A file that was imported and is another one now. It starts nothing any more."""
    failed: str = ""
    """The error that the seed raised, at that number or beside them. It goes on."""


class Seed:
    """One process that has imported the runtime, and forks keepers."""

    def __init__(self, key: Key, folder: Path) -> None:
        self.key = key
        self.users: set[str] = set()
        """Processes that run and are forks of it, or are to be."""
        self.idle_since = time.monotonic()
        self.waiting: dict[int, tuple[str, Request]] = {}
        """By number in the order they came: for whom, and what."""
        self._folder = folder
        self.begin()

    def begin(self) -> None:
        """Start the process; what waits is for it to do.

        Raises:
            OSError: it cannot be started.
        """
        self.ready = False
        self._asked = 0
        self._heard_at = 0.0
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        interpreter, env = self.key
        with theirs:
            words = [interpreter, "-m", "dtfctl.seed", str(theirs.fileno()), str(self._folder), "-" * TITLE_BYTES]
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    env=dict(env),
                    cwd=private_folder(self._folder),
                    start_new_session=True,
                    pass_fds=(theirs.fileno(),),
                )
            except BaseException:
                self.socket.close()
                raise

    def fileno(self) -> int:
        return self.socket.fileno()

    def ask(self, name: str, request: Request) -> None:
        self.waiting[request.number] = name, request
        self.users.add(name)
        self.send()

    def withdraw(self, name: str) -> None:
        """Withdraw a process: whatever comes of it, nobody waits for it any more."""
        self.waiting = {number: item for number, item in self.waiting.items() if item[0] != name}

    def environment_of(self, request: Request) -> dict[str, str]:
        """Make the whole environment of a process."""
        return {**dict(self.key[1]), **request.env}

    def release(self, name: str) -> None:
        """Release a process, which has ended."""
        self.users.discard(name)
        self.idle_since = time.monotonic()

    def send(self) -> None:
        """Give it what it may have before it, once it is ready."""
        if not self.ready:
            return
        if not self._before_it():
            self._heard_at = time.monotonic()
        for number in [number for number in self.waiting if number > self._asked][: AT_ONCE - self._before_it()]:
            self._asked = number
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is read as the end of the socket
                self.socket.send(codec.encode(self.waiting[number][1]).encode())

    def _before_it(self) -> int:
        return sum(1 for number in self.waiting if number <= self._asked)

    def hear(self) -> tuple[Reply, int] | None:
        """Hear the seed's next word, with a pidfd or -1; None when it has ended."""
        self._heard_at = time.monotonic()
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, LARGEST_MESSAGE, 1)
        except ConnectionResetError:
            return None
        if not data:
            return None
        return codec.decode(Reply, data), fds[0] if fds else -1

    def is_silent(self, now: float) -> bool:
        """Tell whether the seed has work before it and does not do it, stopped or stuck."""
        return self._before_it() > 0 and now - self._heard_at > ANSWER_S

    def kill(self) -> None:
        """Kill the seed; its end is then heard as any other."""
        self._process.kill()

    def how_it_ended(self) -> str:
        """Say how the seed ended, after its socket's end."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return "it has closed its socket and runs"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End it, if it has not ended."""
        self.socket.close()
        self._process.kill()
        self._process.wait()


class Seeds:
    """The seeds of one agent, in its loop's thread.

    `selector` wakes the loop with a `Seed` as data when one has something to say.
    """

    def __init__(self, folder: Path, selector: selectors.BaseSelector) -> None:
        self._folder = folder
        self._selector = selector
        self._seeds: dict[Key, Seed] = {}
        self._without: dict[Key, float] = {}
        self._numbers = 0

    def serve(self, command: Sequence[str]) -> bool:
        """Tell whether this command is a fork, as far as seeds have not failed."""
        return tuple(command[1:3]) == OWN_PROGRAM and max(self._without.values(), default=0.0) <= time.monotonic()

    def seed_for(self, command: Sequence[str], env: Mapping[str, str]) -> Seed | None:
        """Find the seed whose fork can be this command, or make it; None: the command is to be started as a program."""
        if tuple(command[1:3]) != OWN_PROGRAM:
            return None  # the user's, of which nobody knows what a fork would do to it
        key = command[0], tuple(sorted((name, text) for name, text in env.items() if name not in OF_EACH_TASK))
        if self._without.get(key, 0.0) > time.monotonic():
            return None
        return self._seeds.get(key) or self._make(key)

    def _make(self, key: Key) -> Seed | None:
        try:
            seed = Seed(key, self._folder)
        except (OSError, LauncherError) as error:
            self._do_without(key, str(error))
            return None
        self._seeds[key] = seed
        self._selector.register(seed, selectors.EVENT_READ, seed)
        return seed

    def ask(
        self, seed: Seed, name: str, keeper: Sequence[str], shown: Sequence[str], env: Mapping[str, str], cwd: Path
    ) -> None:
        """Have a keeper started for process `name`."""
        self._numbers += 1
        own = {variable: env[variable] for variable in OF_EACH_TASK if variable in env}
        seed.ask(name, Request(self._numbers, tuple(keeper), tuple(shown), own, str(cwd)))

    def hear(self, seed: Seed) -> tuple[str, int, int] | list[tuple[str, Request]]:
        """Hear a seed: a process, its keeper's pid and pidfd; or for whom it will not do what, having failed."""
        heard = seed.hear()
        if heard is None:
            return self._lost(seed)
        reply, pidfd = heard
        if reply.changed:
            return self._renew(seed, reply.changed)
        if reply.failed:
            guard.count()
            log.warning("the seed of tasks has failed at one thing (%s), and goes on", reply.failed)
            undone = seed.waiting.pop(reply.number, None)
            seed.send()
            return [] if undone is None else [undone]
        if reply.number == 0:
            seed.ready = True
        name, _ = seed.waiting.pop(reply.number, ("", None))
        seed.send()
        if not name and pidfd >= 0:
            os.close(pidfd)  # withdrawn meanwhile; such a keeper finds that its start is forbidden
        return (name, reply.pid, pidfd) if name else []

    def _lost(self, seed: Seed) -> list[tuple[str, Request]]:
        how = seed.how_it_ended()
        self._drop(seed)
        if seed.waiting or not seed.ready:
            self._do_without(seed.key, how)
        else:
            log.warning("the seed of tasks has ended (%s): the next task that starts gets a new one", how)
        return list(seed.waiting.values())

    def _do_without(self, key: Key, why: str) -> None:
        self._without[key] = time.monotonic() + WITHOUT_S
        log.warning(
            "the seed of tasks has failed (%s): for %.0f s each task imports the runtime itself", why, WITHOUT_S
        )

    def _renew(self, seed: Seed, changed: str) -> list[tuple[str, Request]]:
        """Begin a seed anew, if possible: the old one has started nothing of what still waits, and never will."""
        log.info("%s has changed: a new seed of tasks", changed)
        self._drop(seed)
        try:
            seed.begin()
        except (OSError, LauncherError) as error:
            self._do_without(seed.key, str(error))
            return list(seed.waiting.values())
        self._seeds[seed.key] = seed
        self._selector.register(seed, selectors.EVENT_READ, seed)
        return []

    def look(self) -> None:
        """End those of which no task has run for long, and those that do not answer."""
        now = time.monotonic()
        for seed in self._seeds.values():
            if seed.is_silent(now):
                seed.kill()
        for seed in [seed for seed in self._seeds.values() if not seed.users and now - seed.idle_since > IDLE_S]:
            self._drop(seed)

    def close(self) -> None:
        for seed in list(self._seeds.values()):
            self._drop(seed)

    def _drop(self, seed: Seed) -> None:
        del self._seeds[seed.key]
        self._selector.unregister(seed)
        seed.close()
