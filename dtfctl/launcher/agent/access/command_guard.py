"""The guard: a small process between the agent and a command of `exec`, so that nothing of the command outlives it.

    python -S -E guard.py CONTROL_FD TERMINAL FOLDER COMMAND...

It starts COMMAND in a session of its own (TERMINAL 1: with its stdin as controlling terminal) and waits for its end,
or for that of CONTROL_FD, whose other end the agent holds: the kernel closes it however the agent ends. Then it ends
all that is left of the command, also what has gone into sessions of its own, and exits with the command's code. A
byte in CONTROL_FD is the number of a signal for the command. Like the keeper, it imports nothing of dtfctl.
"""

import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import termios
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
HANG_UP_S = 1.0
"""Time to end between SIGHUP and SIGKILL."""
KILL_S = 5.0
NOT_FOUND, NOT_RUN = 127, 126


def descendants() -> set[int]:
    """Find all processes below this one. Their parents may be gone: orphans become children of the guard."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    text = file.read()
            except OSError:  # it has ended
                continue
            state, parent = text[text.rindex(b")") + 2 :].split()[:2]
            if state not in (b"Z", b"X"):
                children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), []):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def send(pids: set[int], *numbers: int) -> None:
    for pid in pids:
        for number in numbers:
            try:
                os.kill(pid, number)
            except OSError:  # it has ended, or changed its user
                break


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def end_all() -> None:
    """Hang up, then kill, until nothing is left."""
    left = descendants()
    send(left, signal.SIGHUP, signal.SIGCONT)
    patience = time.monotonic() + HANG_UP_S
    give_up = patience + KILL_S
    while left and time.monotonic() < give_up:
        if time.monotonic() > patience:
            send(left, signal.SIGKILL)
        time.sleep(0.01)
        reap()
        left = descendants()


def run_command(terminal: bool, folder: str, command: list[str]) -> None:
    """Become the command, in the child."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Python ignores some, and whoever ran `up` in the background others: Ctrl-C would do nothing.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.setsid()
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        limit = os.environ.pop("DTF_OPEN_FILES", "")  # see `net/descriptors.py`
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        os.chdir(folder)
        os.execvp(command[0], command)
    except FileNotFoundError as error:
        what, code = error.filename or command[0], NOT_FOUND
        problem = f"{what}: not found"
    except OSError as error:
        problem, code = f"{command[0]}: {error.strerror}", NOT_RUN
    os.write(2, f"dtfctl: {problem}\n".encode())
    os._exit(code)


def main() -> int:
    control, terminal, folder, command = int(sys.argv[1]), sys.argv[2] == "1", sys.argv[3], sys.argv[4:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(control, False)
    child = os.fork()
    if child == 0:
        run_command(terminal, folder, command)
    # The command alone holds its pipes or terminal, so that they end with it.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    end = os.pidfd_open(child)
    ready: list[int] = []
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(end, select.POLLIN)
    while end not in ready:
        ready = [fd for fd, _ in poller.poll()]
        if control in ready:
            numbers = os.read(control, 64)
            if not numbers:
                break
            for number in numbers:
                try:
                    os.killpg(child, number)
                except OSError:  # it has just ended
                    continue
    ended = end in ready
    status = os.waitpid(child, 0)[1] if ended else None
    end_all()
    if status is None:
        return 128 + signal.SIGHUP
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    os._exit(main())
