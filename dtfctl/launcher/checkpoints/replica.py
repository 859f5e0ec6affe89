"""Keep a job's checkpoint folder as other hosts have it: one thread a folder, which asks their agents and takes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from dtfctl import guard
from dtfctl.launcher.checkpoints.manifest import (
    STATE,
    checkpoint_of,
    is_complete,
    is_newer,
    listed,
    must_stay,
    prefix_of_data,
    to_take,
    whole,
)
from dtfctl.launcher.checkpoints.record import Record
from dtfctl.launcher.errors import LauncherError, NotFound
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages.agent import Entry, ListFilesRequest, ReadFileRequest
from dtfctl.launcher.messages.agent_calls import LIST_FILES, READ_FILE
from dtfctl.launcher.messages.orders import FolderOrder, FolderPeer
from dtfctl.launcher.messages.reports import FolderReport
from dtfctl.launcher.rpc.client import Channel
from dtfctl.values import replace

log = logging.getLogger(__name__)

ROUND_S = 0.25
OF_LOOK = 10.0
"""Rounds of a folder with many files are this much longer than a look at it takes."""
EACH_S = 0.02
"""How much longer rounds are for each peer."""
LONGEST_STATE = 2**20
CALL_S = 5.0
PIECE_S = 60.0
AGAIN_S = 2.0
"""A peer that did not answer is left alone for so long."""
KEEPER_S = 10.0
"""A controller that cannot be called is waited for no longer: hosts have what there is, unless all of them are new."""
GATE_S = 120.0
"""A task waits no longer than this for what cannot be had."""
WRITING_S = 10.0
"""A task waits no longer than this for files that another host's processes do not stop writing."""

Tell = Callable[[str, str, str], None]
"""Kind, subject and reason of a happening."""


class Replica:
    """The copying of one folder between hosts."""

    def __init__(self, order: FolderOrder, tls: TlsFiles, cluster: str, tell: Tell) -> None:
        self.order = order
        self.record = Record(Path(order.path).expanduser())
        self._tls = tls
        self._cluster = cluster
        self._tell = tell
        self._began = time.monotonic()
        self._wake = threading.Event()
        self._closed = False
        self._channels: dict[str, Channel] = {}
        self._tags: dict[str, str] = {}
        """Of the newest list of each peer of which everything is here."""
        self._retry_at: dict[str, float] = {}
        self._problem = ""
        self._found = FolderReport(order.path)
        self._found_at = ""
        """The tag of the record of which `_found` is the sum."""
        self._in_step = False
        self._gate = 1
        """Counts how often it was shut: at the beginning, for another job, and when the folder was taken away."""
        self._opened = 0
        """The last of these gates that was opened."""
        self._named: tuple[str, ...] | None = None
        self._taken = 0
        self._skipped = self._some_wait = False
        """Of a peer, and of a round: some index was not taken, as data of its checkpoint are not here."""
        self._heard_until: float | None = None
        """Of a round: as `_known_until`, of the peers that were asked, by the clock that nobody sets."""
        self._from: set[str] = set()
        self._known_until: float | None = None
        """Of a round: everything that any peer wrote before is known here, by this host's clock."""
        self._thread = guard.forever(self._run, name="checkpoints")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        for channel in list(self._channels.values()):
            channel.close()

    def set_order(self, order: FolderOrder) -> None:
        if order == self.order:
            return
        before, self.order = self.order, order
        if order.job_id != before.job_id or (order.hold and not before.hold):
            self._shut_gate()  # another job goes on from here, or more is to be here than was
        self._wake.set()

    def _shut_gate(self) -> None:
        self._gate, self._began = self._gate + 1, time.monotonic()

    @property
    def opens_gate(self) -> bool:
        """Whether what needs the folder may start."""
        if not self.order.hold:
            return True
        is_open = self._opened == self._gate and self.record.is_there
        return is_open or time.monotonic() - self._began > GATE_S

    def report(self) -> FolderReport:
        """Report what the agent's loop asks for at every beat: it looks at no file."""
        return replace(self._found, in_step=self._in_step or not self.order.hold)

    def _sum_up(self) -> None:
        tag = f"{self.record.tag} {self._named}"
        if tag != self._found_at:
            entries = self.record.entries
            sizes = [entry.size for entry in entries.values() if not entry.deleted]
            self._found = FolderReport(self.order.path, whole(entries, self._named), files=len(sizes), bytes=sum(sizes))
            self._found_at = tag
        self._found = replace(self._found, problem=self._problem)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._closed:
            look_s = 0.0
            try:
                began, gate, taken_away = time.monotonic(), self._gate, self.record.times_taken_away
                order = self.order  # after its gate, which it may have shut
                self.record.scan()
                look_s = time.monotonic() - began
                if self.record.times_taken_away > taken_away:
                    self._was_taken_away()
                    gate = self._gate
                self._named = self._read_state()
                if order.hold:
                    self._round(order, gate)
                self.record.save()
                problem = ""
            except LauncherError as error:
                problem = error.message
            except OSError as error:
                problem = f"{self.order.path}: {error}"
            except Exception as error:  # a folder that nobody looks after any more must not look like one
                guard.note(f"looking after {self.order.path}")
                problem = f"a bug in dtfctl: {type(error).__name__}: {error}"
            if problem and problem != self._problem:
                self._tell("job.checkpoint-problem", f"job:{self.order.job_id}", problem)
            self._problem = problem
            self._sum_up()
            self._wake.wait(ROUND_S + EACH_S * len(self.order.peers) + OF_LOOK * look_s)
            self._wake.clear()

    def _was_taken_away(self) -> None:
        """Ask for all of it again, though nothing has changed with those who have it."""
        self._tags.clear()
        self._shut_gate()
        text = f"{self.order.path} was deleted on this host: it gets again what other hosts have"
        self._tell("job.checkpoint-problem", f"job:{self.order.job_id}", text)

    def _read_state(self) -> tuple[str, ...] | None:
        """Return what TensorFlow's `checkpoint` file lists, once it is the same for others;
        None where there is none."""
        try:
            with (self.record.folder / STATE).open(encoding="utf-8", errors="replace") as file:
                text = file.read(LONGEST_STATE)
        except OSError:
            return None
        return self._named if STATE in self.record.busy else listed(text)

    def _round(self, order: FolderOrder, gate: int) -> None:
        """Ask every peer once, and take what is new."""
        in_step, problem, taken, self._some_wait = True, None, self._taken, False
        self._heard_until = time.monotonic()
        self._known_until = time.time() if order.all_peers else None
        for peer in order.peers:
            if self._closed:
                return
            counts = peer.role == "agent" or time.monotonic() - self._began < KEEPER_S
            if not peer.address or time.monotonic() < self._retry_at.get(peer.host, 0.0):
                in_step = in_step and not counts
                continue
            try:
                in_step = self._ask(peer) and in_step
            except NotFound:
                in_step = False  # it was written again, or the peer has no such order yet
            except LauncherError as error:
                in_step, problem = in_step and not counts, error
                self._retry_at[peer.host] = time.monotonic() + AGAIN_S
        # A checkpoint of which a part was lost with its host never becomes whole: nothing is to wait for it.
        in_step = in_step and not (self._some_wait and self._taken > taken)
        self._in_step = in_step
        if in_step and self._known_until is not None:
            self.record.set_known_until(self._known_until)
        if in_step and self._opened != gate and self._may_open():
            self._opened = gate
            if self._taken and order.gates:
                text = f"{self._taken} files from {', '.join(sorted(self._from))}"
                self._tell("job.checkpoint-fetched", f"job:{order.job_id}", text)
        if problem is not None:
            log.info("%s: %s", order.path, problem.message)

    def _may_open(self) -> bool:
        """Tell whether all is here that peers had when the gate was shut, not only what they had looked at by then."""
        return (self._heard_until or 0.0) >= self._began or time.monotonic() - self._began > WRITING_S

    def _ask(self, peer: FolderPeer) -> bool:
        """Tell whether everything that the peer has is here."""
        channel = self._channel(peer)
        known, clock = self._tags.get(peer.host, ""), self.record.clock
        request = ListFilesRequest(path=self.order.path, tag=known, clock=clock)
        asked_at, asked = time.time(), time.monotonic()
        reply = channel.call(LIST_FILES, request, timeout_s=CALL_S)
        age_s = reply.age_s
        if self._heard_until is not None:
            self._heard_until = None if age_s is None else min(self._heard_until, asked - age_s)
        if self._known_until is not None:
            self._known_until = None if age_s is None else min(self._known_until, asked_at - age_s)
        if reply.tag == request.tag:
            return True
        self._skipped = False
        if not self._take_all(peer, channel, reply.entries):
            return False
        if self._skipped:
            self._some_wait = True
        else:
            self._tags[peer.host] = reply.tag
        return True

    def _channel(self, peer: FolderPeer) -> Channel:
        known = self._channels.get(peer.host)
        if known is None or known.address != peer.address:
            if known is not None:
                known.close()
            self._tags.pop(peer.host, None)
            name = peer.host if peer.role == "agent" else ""
            known = self._channels[peer.host] = Channel(peer.address, self._tls, peer.role, self._cluster, name)
        return known

    def _take_all(self, peer: FolderPeer, channel: Channel, theirs: Iterable[Entry]) -> bool:
        theirs = list(theirs)
        data: dict[str, set[str]] = {}
        """Of each of their checkpoints."""
        for entry in theirs:
            if not entry.deleted and (of := prefix_of_data(entry.path)) is not None:
                data.setdefault(of[0], set()).add(entry.path)
        done = True
        news = to_take(self.record.entries, theirs, self.record.busy, self.record.floor)
        for entry in (entry for entry in news if not entry.deleted):
            if self._closed:
                return False
            if self.record.note(entry):
                continue
            if not self._is_whole_with(entry, data):
                self._skipped = True  # its data come from another host, or from none any more
                continue
            try:
                taken = self.record.store(entry, partial(self._piece, channel, entry))
            except NotFound:
                done = False
                continue
            self._taken += taken
            self._from.add(peer.host)
            done = done and taken
        deleted = [entry for entry in news if entry.deleted]
        stays = must_stay(self.record.entries, {entry.path for entry in deleted}) if deleted else None
        for entry in deleted:
            if stays is not None and stays in (entry.path, checkpoint_of(entry.path)):
                self._skipped = True  # until a newer one is whole here
            else:
                self.record.remove(entry)
        own, busy = self.record.entries, self.record.busy
        return done and not any(e.path in busy and is_newer(e, own.get(e.path)) for e in theirs)

    def _is_whole_with(self, entry: Entry, theirs: Mapping[str, set[str]]) -> bool:
        """Tell whether a file may appear here; an index may when all `theirs`, data of its checkpoint, are here."""
        if not entry.path.endswith(".index"):
            return True
        prefix = entry.path.removesuffix(".index")
        own = {path: known for path, known in self.record.of_checkpoint(prefix).items() if not known.deleted}
        return is_complete(entry.path, own) and theirs.get(prefix, set()) <= own.keys()

    def _piece(self, channel: Channel, entry: Entry, offset: int) -> bytes:
        request = ReadFileRequest(folder=self.order.path, path=entry.path, sha256=entry.sha256, offset=offset)
        return channel.call(READ_FILE, request, timeout_s=PIECE_S).data
