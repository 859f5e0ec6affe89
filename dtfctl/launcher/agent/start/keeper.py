"""The keeper: a small process between the agent and one task, so that the task outlives the agent.

    python -S -E keeper.py RUN_FOLDER LOG_FILE ROTATE_BYTES KEEP_FILES BYTES_PER_S GROUPS MEMORY_BYTES CORES COMMAND...

It starts COMMAND in a session of its own, writes its output with time stamps into a rotated log (`keeper_log.py`), and
records how it ended in RUN_FOLDER/status, then ends itself: that is what wakes the agent. GROUPS are the files through
which a process enters the control groups that limit it, joined by `;`, or empty. Where the kernel holds no limit of
memory, the keeper looks at what COMMAND and its descendants use and kills them past MEMORY_BYTES (0: none); they run
on CORES, such as `0,2` (empty: on all). The keeper imports only modules that are built into Python, and of dtfctl its
log alone, because there may be one keeper for every task: half of its CPU time would be imports.
A fork of a seed (`dtfctl/seed.py`) is a keeper, too; its COMMAND is a fork that goes on as the task.

The status file has a fixed size and the agent has made room for it before (RUN_FOLDER/room), so that a full disk
cannot swallow an exit code. Giving the room its name is the claim to run: whoever makes `status` first, keeper or
agent, decides whether this start happens.
"""

import binascii
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # without the enumerations of `signal`, which cost more than all the rest

if TYPE_CHECKING or __package__:
    from dtfctl.launcher.agent.start.keeper_log import CHUNK_BYTES, Lines, Log
else:
    # It runs as a program, perhaps its compiled form.
    sys.path[0] = os.path.dirname(__file__).removesuffix("__pycache__")
    from keeper_log import CHUNK_BYTES, Lines, Log

STATUS_BYTES = 256
PART_S = 0.05
"""How long the begin of a line waits for its end before it is written as a part: a prompt must be seen."""
WATCH_MS = 50
"""How often the memory of a process with a limit is looked at."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
DRAIN_S = 0.5
"""How long output is still read after the task ended: somebody outside its group may hold the pipe."""
LARGEST_PIPE = 2**20
"""What a pipe may hold when its writer ends: that much is read in any case."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0
MOST_FAILURES = 8
"""The failures after which the keeper tries no more, once its child has ended."""


def start_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        text = file.read()
    return int(text[text.rindex(b")") + 2 :].split()[19])


class StatusFile:
    """`phase keeper_pid keeper_ticks task_pid task_ticks exit_code signal max_rss_kib over_kib time crc`, `-` where
    unknown. `over_kib` is what the task used when it was killed for its limit, else 0."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, "status")
        os.link(os.path.join(folder, "room"), path)
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._head = f"{os.getpid()} {start_ticks(os.getpid())}"
        self._task = "- -"
        self._write("claimed", "- - - -")

    def started(self, pid: int) -> None:
        self._task = f"{pid} {start_ticks(pid)}"
        self._write("running", "- - - -")

    def ended(self, code: int, signal_number: int, max_rss_kib: int, over_kib: int) -> None:
        self._write("ended", f"{code} {signal_number} {max_rss_kib} {over_kib}")

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, phase: str, end: str) -> None:
        text = f"{phase} {self._head} {self._task} {end} {time.time():.3f}"
        line = f"{text} {binascii.crc32(text.encode()):08x}"
        os.pwrite(self._fd, line.ljust(STATUS_BYTES - 1).encode() + b"\n", 0)


class Memory:
    """What a process and its descendants use, and whether that is too much."""

    def __init__(self, pid: int, limit_bytes: int) -> None:
        self._pid = pid
        self._limit = limit_bytes
        self._looked_at = 0.0
        self.over_bytes = 0
        """What they used when they were killed for it."""

    def look_if_due(self) -> None:
        """Kill them if they use more than the limit. Memory that they share is counted once before that."""
        now = time.monotonic()
        if now - self._looked_at >= WATCH_MS / 1000:
            self._looked_at = now
            self._look()

    def _look(self) -> None:
        family = descendants(self._pid)
        if sum(resident_bytes(pid) for pid in family) <= self._limit:
            return
        used = sum(own_bytes(pid) for pid in family)
        if used <= self._limit:
            return
        self.over_bytes = used
        for pid in reversed(family):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


def descendants(pid: int) -> list[int]:
    """Find a process and all below it; the children that one left behind when it ended are not found."""
    found = [pid]
    for parent in found:
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    found += [int(word) for word in file.read().split()]
        except OSError:
            continue
    return found


def resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def own_bytes(pid: int) -> int:
    """Count bytes as `resident_bytes` does, with what is shared divided among those that share it."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resident_bytes(pid)


def run_child(
    command: list[str], out: int, err: int, groups: str, cores: str, become: "Callable[[], None] | None"
) -> None:
    """Become COMMAND, or what `become` makes of the forked child. Does not return."""
    try:
        os.setsid()
        for group in groups.split(";") if groups else ():
            with open(group, "w") as procs:
                procs.write("0")
        if cores:
            os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
        os.dup2(out, 1)
        os.dup2(err, 2)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if become is None:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            usual_files()
            os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    os.close(out)
    os.close(err)
    become()


def usual_files() -> None:
    """Set the limit that the agent had before it raised its own; see `net/descriptors.py`."""
    limit = os.environ.pop("DTF_OPEN_FILES", "")
    if limit:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), hard))


class Pump:
    """Copies output to the log until the child has ended and nothing of its output is left."""

    def __init__(self, child: int, streams: dict[int, Lines], log: Log, memory: "Memory | None") -> None:
        self._child = child
        self.child_fd = os.pidfd_open(child)
        self._poller = select.poll()
        self._poller.register(self.child_fd, select.POLLIN)
        for fd in streams:
            self._poller.register(fd, select.POLLIN)
        self._streams = streams
        self._everything = list(streams.values())
        self._log = log
        self._memory = memory
        self._deadline: float | None = None
        self._left = dict.fromkeys(streams, LARGEST_PIPE)
        """What the child may have left in each pipe."""

    @property
    def has_child_ended(self) -> bool:
        return has_ended(self.child_fd, 0, None)

    @property
    def goes_on(self) -> bool:
        if self._deadline is None:
            return True
        return bool(self._streams) and (time.monotonic() < self._deadline or any(self._left.values()))

    def turn(self) -> None:
        if self._deadline is None:
            while (pause_s := self._log.pause_s()) and not has_ended(self.child_fd, pause_s, self._memory):
                pass
        is_over = self._deadline is not None
        waiting = is_over or any(lines.begun for lines in self._everything)
        watched = None if is_over else self._memory
        ready = self._poller.poll(20 if waiting else WATCH_MS if watched is not None else None)
        if watched is not None:
            watched.look_if_due()
        for fd, _ in ready:
            if fd == self.child_fd:
                self._child_ended()
            else:
                self._take(fd)
        if self._deadline is not None:
            for fd in self._left:
                if all(fd != found for found, _ in ready):
                    self._left[fd] = 0  # it was empty, and what comes now is somebody else's
        old = time.monotonic() - PART_S
        for lines in self._everything:
            if lines.begun and lines.begun_at < old:
                lines.flush()

    def _child_ended(self) -> None:
        self._poller.unregister(self.child_fd)
        self._deadline = time.monotonic() + DRAIN_S
        os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOWAIT)
        # Children that it left behind in its group would hold ports and memory that the next start needs.
        os.killpg(self._child, signal.SIGKILL)

    def _take(self, fd: int) -> None:
        """Take what has come from one stream."""
        chunk = os.read(fd, CHUNK_BYTES)
        if self._deadline is not None:
            self._left[fd] = max(0, self._left[fd] - len(chunk))
        if chunk:
            self._streams[fd].add(chunk)
        else:
            self._poller.unregister(fd)
            del self._streams[fd], self._left[fd]

    def finish(self) -> None:
        for lines in self._everything:
            lines.flush()
        self._log.catch_up()


def pump(child: int, streams: dict[int, Lines], log: Log, memory: "Memory | None" = None) -> None:
    """Copy output to the log until the child has ended and nothing of its output is left. What a turn raises is in the
    log: a process must not end for its keeper's fault, nor its end stay unknown."""
    work = Pump(child, streams, log, memory)
    failures = 0
    while work.goes_on and not (failures > MOST_FAILURES and work.has_child_ended):
        try:
            work.turn()
        except Exception as error:
            note(log, error)
            failures += 1
            has_ended(work.child_fd, min(FIRST_PAUSE_S * 2**failures, LONGEST_PAUSE_S), None)
    try:
        work.finish()
    except Exception as error:
        note(log, error)


def note(log: Log, error: Exception) -> None:
    try:
        text = f"dtfctl: the keeper failed, and goes on: {type(error).__name__}: {error}\n"
        log.write("err", text.encode(errors="replace"))
    except Exception:  # it may be the log that fails
        return


def has_ended(child_fd: int, within_s: float, memory: "Memory | None") -> bool:
    """Leave output where it is for so long; its writer waits when the pipe is full. Its end is not to wait."""
    poller = select.poll()
    poller.register(child_fd, select.POLLIN)
    if memory is None:
        return bool(poller.poll(within_s * 1000))
    until = time.monotonic() + within_s
    while (left_s := until - time.monotonic()) > 0:
        if poller.poll(min(WATCH_MS, left_s * 1000)):
            return True
        memory.look_if_due()
    return False


def main(argv: list[str], become: "Callable[[], None] | None" = None) -> int:
    """Keep one process. `become`: what the task is, in a fork that need not start a program, and raises SystemExit."""
    folder, log_path, rotate_bytes, keep, rate, groups, memory_bytes, cores, *command = argv
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        status = StatusFile(folder)
    except FileExistsError:
        return 0  # the agent gave this start up
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    child = os.fork()
    if child == 0:
        if become is not None:
            for fd in (out_read, err_read):
                os.close(fd)
            status.close()
        run_child(command, out_write, err_write, groups, cores, become)
    os.close(out_write)
    os.close(err_write)
    # Before it counts as running: a running task that has said nothing has an empty log, not none.
    log = Log(log_path, int(rotate_bytes), int(keep), int(rate))
    status.started(child)
    memory = Memory(child, int(memory_bytes)) if int(memory_bytes) else None
    pump(child, {out_read: Lines("out", log), err_read: Lines("err", log)}, log, memory)
    _, wait_status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(wait_status)
    over_kib = 0 if memory is None else memory.over_bytes >> 10
    status.ended(code if code >= 0 else 128 - code, max(0, -code), usage.ru_maxrss, over_kib)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
