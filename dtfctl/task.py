"""python -m dtfctl.task CONFIG: the process of one task; the one place where launcher and runtime meet.

It serves the runtime (`TaskServer`), tells its agent every beat that it serves (or what of it does not answer any more)
and how many requests it has served, and passes on what the agent says about other tasks. The configuration is a file of
`launcher.agent.launch.TaskConfig`.
"""

from __future__ import annotations

import errno
import faulthandler
import itertools
import logging
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from dtfctl import guard
from dtfctl.figures import TaskFigures
from dtfctl.health import beats
from dtfctl.launcher.agent.start.launch import TaskConfig
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.orders import ADDRESS_IN_USE_EXIT
from dtfctl.net.descriptors import raise_limit
from dtfctl.runtime.framework.denormals import flush_denormals

if TYPE_CHECKING:
    from dtfctl.runtime.services.pulse import Pulse
    from dtfctl.runtime.services.server import TaskServer

log = logging.getLogger("dtfctl.task")
LOOK_S = 0.5
FIGURES_S = 2.0
"""How often its figures are gathered: variables may be thousands, and nobody acts on them."""


class AgentLine:
    """The datagram socket between this task and its agent. The agent may be away; then beats are simply not heard."""

    def __init__(self, config: TaskConfig) -> None:
        self._config = config
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(config.control_path))
        # The kernel queues few datagrams; where many tasks beat at once a beat waits for room rather than be lost.
        wait = struct.pack("ll", int(config.beat_s), int(config.beat_s % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
        self._server: TaskServer | None = None
        self._pulse: Pulse | None = None
        self._beat_now = threading.Event()
        self._heard = True
        self._unreachable: tuple[str, ...] = ()
        self._blas = ""
        self._figures, self._figures_at = TaskFigures(), float("-inf")
        self._datagram = b""
        self._notes: deque[beats.Note] = deque()
        """Those that have come and were not heard yet."""

    def start(self) -> None:
        guard.forever(self._beat, name="beat").start()

    def serve(self, server: TaskServer) -> None:
        """Tell the agent that the task is ready; notes about peers go to `server` from now on."""
        from dtfctl.runtime.kernels.blas_in_use import blas_in_use

        self._blas = blas_in_use()
        self._pulse = server.make_pulse(self._config.beat_s)
        self._server = server
        guard.forever(self._listen, name="notes", args=(server,)).start()
        self._beat_now.set()
        guard.forever(self._look, name="reach", args=(server,)).start()

    def _look(self, server: TaskServer) -> None:
        """Look which tasks cannot be reached, and tell the agent at once when that changes."""
        from dtfctl.runtime.services.reach import Reach

        reach = Reach(server.progress, server.silent_peers)
        while True:
            time.sleep(LOOK_S)
            reach.look(time.monotonic())
            if reach.unreachable != self._unreachable:
                log.warning("out of reach now: %s", ", ".join(reach.unreachable) or "nobody")
                self._unreachable = reach.unreachable
                self._beat_now.set()

    def _beat(self) -> None:
        config = self._config
        name = f"{config.job}/{config.index}"
        while True:
            server = self._server
            steps = 0 if server is None else server.progress()
            carriers = set() if server is None else set(server.transports().values())
            carrier = "+".join(sorted(carriers))
            stuck = "" if self._pulse is None else self._pulse.look(time.monotonic())
            beat = beats.Beat(
                name,
                config.incarnation,
                server is not None,
                steps,
                carrier,
                self._blas,
                stuck=stuck,
                unreachable=self._unreachable,
                spared_bytes=0 if server is None else server.spared_bytes(),
                faults=guard.faults(),
                links=() if server is None else _carried(server),
                news=() if server is None else server.news(),
                figures=self._newest_figures(server),
            )
            try:
                self._socket.sendto(beats.pack(beat), str(config.agent_path))
                self._heard = True
            except OSError as error:
                if self._heard:
                    log.warning("the agent is away (%s); going on without it", error.strerror)
                self._heard = False
            self._beat_now.wait(config.beat_s)
            self._beat_now.clear()

    def _newest_figures(self, server: TaskServer | None) -> TaskFigures:
        now = time.monotonic()
        if server is not None and now - self._figures_at >= FIGURES_S:
            self._figures, self._figures_at = server.figures(), now
        return self._figures

    def _listen(self, server: TaskServer) -> None:
        """Hear the agent's notes.

        Each comes once, and after a fault the loop begins again: so one is kept until it was acted on. To act on one
        twice does no harm.
        """
        while True:
            while self._notes:
                guard.call(lambda: self._hear(server, self._notes[0]), "a note of the agent")
                self._notes.popleft()
            if not self._datagram:
                self._datagram = self._socket.recv(beats.LARGEST_DATAGRAM)
            try:
                self._notes.extend(beats.unpack_all(self._datagram))
            except ValueError as error:
                log.warning("ignored a datagram: %s", error)
            self._datagram = b""

    def _hear(self, server: TaskServer, note: beats.Note) -> None:
        """Act on one note of the agent's."""
        if isinstance(note, beats.PeerDown):
            log.info("/job:%s/task:%d is down: %s", note.job, note.index, note.reason)
            server.peer_down(note.job, note.index, note.incarnation, note.reason)
        elif isinstance(note, beats.PeerUp):
            log.info("/job:%s/task:%d is up at %s", note.job, note.index, note.address)
            server.peer_up(note.job, note.index, note.address, note.incarnation)
        elif isinstance(note, beats.JobEnded):
            log.info("job %s has ended", note.job_id)
            server.job_ended(note.job_id)
        elif isinstance(note, beats.Place):
            server.stand(note.rack, dict(note.rates))
        elif isinstance(note, beats.PeerGone):
            log.info("/job:%s/task:%d is out of the cluster: %s", note.job, note.index, note.reason)
            server.peer_gone(note.job, note.index, note.reason, lost=note.lost)


def _carried(server: TaskServer) -> tuple[beats.Carried, ...]:
    """Say how tensors go to the tasks that this one is linked to."""
    from dtfctl.runtime.compression.payoff import summary

    return tuple(
        beats.Carried(
            peer,
            link.transport,
            link.is_encrypted,
            float(f"{link.bytes_s:.3g}"),
            link.samples,
            summary(link.judgements)[: beats.MOST_WORDS],
        )
        for peer, link in itertools.islice(server.links().items(), beats.MOST_LINKS)
    )


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    flush_denormals()
    raise_limit()
    config = codec.decode(TaskConfig, Path(sys.argv[1]).read_bytes())
    stop = threading.Event()
    ended_by = signal.SIGTERM

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal ended_by
        ended_by = signal.Signals(number)
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    line = AgentLine(config)
    line.start()

    from dtfctl.runtime.services.server import TaskServer, TaskServerConfig, TlsFiles

    tls = config.tls
    server = TaskServer(
        TaskServerConfig(
            cluster={job: dict(tasks) for job, tasks in config.cluster.items()},
            job_name=config.job,
            task_index=config.index,
            incarnation=config.incarnation,
            listen=config.listen,
            socket_path=config.socket_path,
            tls=None if tls is None else TlsFiles(tls.ca, tls.cert, tls.key),
            transport=config.transport,
            encrypt=config.encrypt,
        )
    )
    try:
        server.start()
    except OSError as error:
        log.error("cannot serve at %s: %s", config.listen, error)
        return ADDRESS_IN_USE_EXIT if error.errno == errno.EADDRINUSE else 1
    line.serve(server)
    log.info(
        "/job:%s/task:%d serves at %s, incarnation %d", config.job, config.index, config.listen, config.incarnation
    )
    # Wakes now and then so that a signal is handled even where a wait would not be interrupted.
    while not stop.wait(3600.0):
        log.info("still serving, %d requests so far", server.progress())
    server.stop(config.grace_s * 0.8)
    # A server has no end of its own: where its agent did not ask for it, as when a machine is shut down, it was killed.
    signal.signal(ended_by, signal.SIG_DFL)
    os.kill(os.getpid(), ended_by)
    return 128 + ended_by


if __name__ == "__main__":
    sys.exit(main())
