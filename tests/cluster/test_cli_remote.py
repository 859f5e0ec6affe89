"""`exec`, `attach`, `get`, `put` over a real cluster that all tests of this file share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.commands import Shell, command
from tests.cluster.conftest import kill_leftovers, processes_of, wait_until

SPEC = "cluster: cli\nenv: {COLOUR: blue}\ntasks: {ps: 1, worker: {count: 2, env: {ROLE: works}}}\n"


@pytest.fixture(scope="module")
def dtfctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("remote")
    (folder / "c.yaml").write_text(SPEC)
    (folder / "user").mkdir()
    env = {**os.environ, "DTFCTL_HOME": str(folder / "home"), "HOME": str(folder / "user"), "NO_COLOR": "1"}
    shell = Shell(folder, env)
    assert shell("up", "c.yaml").returncode == 0
    yield shell
    shell("down", "--yes", "--grace", "500ms")
    kill_leftovers(folder / "home")


def user_home(dtfctl: Shell) -> Path:
    return Path(dtfctl.env["HOME"])


def test_a_command_has_the_tasks_environment_and_returns_its_own_code(dtfctl: Shell) -> None:
    done = dtfctl.process(
        "exec", "worker/1", "--", "sh", "-c", "echo $DTF_TASK_INDEX $COLOUR $ROLE; pwd; echo e >&2; exit 3"
    )
    assert done.returncode == 3
    assert done.stdout.decode().splitlines() == ["1 blue works", str(user_home(dtfctl))]
    assert done.stderr == b"e\n"


def test_codes_of_commands_that_cannot_run_or_are_killed(dtfctl: Shell) -> None:
    (dtfctl.folder / "plain").write_text("no program")
    for words, code, text in [
        (["no-such-program"], 127, b"not found"),
        ([str(dtfctl.folder / "plain")], 126, b"Permission denied"),
        (["sh", "-c", "kill -9 $$"], 137, b""),
    ]:
        done = dtfctl.process("exec", "ps/0", "--", *words)
        assert done.returncode == code, done.stderr
        assert text in done.stderr
    assert dtfctl("exec", "worker/7", "--", "true").returncode == 4
    assert dtfctl("exec", "host:elsewhere", "--", "true").returncode == 4
    assert dtfctl("exec", "worker/0").returncode == 2
    assert dtfctl("exec", "worker/0", "-o", "json").returncode == 2


def test_stdin_is_passed_on_to_its_end_whatever_its_size(dtfctl: Shell) -> None:
    data = os.urandom(3_000_000)
    done = dtfctl.process("exec", "worker/0", "--", "sha256sum", stdin=data)
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    echoed = dtfctl.process("exec", "worker/0", "--", "cat", stdin=data)
    assert echoed.stdout == data


def test_several_targets_once_a_host_or_once_a_task(dtfctl: Shell) -> None:
    shell = ["--", "sh", "-c", 'echo "$DTF_JOB_NAME/$DTF_TASK_INDEX"']
    assert dtfctl.process("exec", "worker", *shell).stdout == b"worker/0\n"
    each = dtfctl.process("exec", "--each", "all", *shell)
    lines = [line.split(" | ") for line in each.stdout.decode().splitlines()]
    assert sorted(lines) == sorted([name.ljust(len(label)), name] for label, name in lines)
    assert sorted(name for _, name in lines) == ["ps/0", "worker/0", "worker/1"]
    assert dtfctl.process("exec", "--first", "ps,worker", *shell).stdout == b"ps/0\n"
    failing = dtfctl.process("exec", "--each", "worker", "--", "sh", "-c", "exit $((DTF_TASK_INDEX * 5))")
    assert failing.returncode == 5
    assert b"worker/1: exit code 5" in failing.stderr and b"1 of 2 failed" in failing.stderr
    words = ["--each", "worker", "--", "sh", "-c", "echo hi; exit $DTF_TASK_INDEX"]
    found = json.loads(dtfctl("-o", "json", "exec", *words).stdout)
    assert (found["version"], found["kind"]) == (1, "ExecResult")
    assert [(r["target"], r["exit_code"], r["stdout"]) for r in found["results"]] == [
        ("worker/0", 0, "hi\n"),
        ("worker/1", 1, "hi\n"),
    ]


def test_a_job_has_processes_to_run_beside(dtfctl: Shell) -> None:
    job = dtfctl.script("import time; time.sleep(60)")
    submitted = dtfctl("submit", "--detach", "--name", "sleeper", "--env", "SEED=7", job)
    assert submitted.returncode == 0
    wait_until(lambda: dtfctl.json("job", "sleeper-1")["state"] == "running", "the job runs")
    words = ["--", "sh", "-c", "echo $DTF_JOB_ID $SEED; pwd"]
    for options in (["--first", "job:sleeper-1"], ["job:sleeper-1", "--first"], ["job:sleeper-1", "--parallel", "1"]):
        done = dtfctl.process("exec", *options, *words)
        assert done.stdout.decode().splitlines() == ["sleeper-1 7", str(dtfctl.folder)], done.stderr
    assert dtfctl.process("exec", "job:sleeper-1", "--each", *words).stdout.count(b"sleeper-1 7") == 2
    for wrong in (["--parallel", "0"], ["--parallel"], ["--nonsense"], ["-o", "json"]):
        assert dtfctl.process("exec", "job:sleeper-1", *wrong, *words).returncode == 2
    assert dtfctl("cancel", "sleeper-1", "--grace", "1s").returncode == 0


def test_what_a_job_has_left_can_be_fetched_when_it_has_ended(dtfctl: Shell, tmp_path: Path) -> None:
    job = dtfctl.script("import os; open('out-' + os.environ['DTF_TASK_INDEX'], 'w').write('result')")
    assert dtfctl("submit", "--name", "maker", job).returncode == 0
    wait_until(lambda: dtfctl.json("job", "maker-1")["final"], "it has ended")
    got = dtfctl("get", "job:maker-1:worker/0:out-0", str(tmp_path / "got"))
    assert got.returncode == 0, got.stderr
    assert (tmp_path / "got").read_text() == "result"
    assert dtfctl("get", "job:maker-1:worker/0:none", str(tmp_path / "x")).returncode == 4
    assert dtfctl.process("exec", "job:maker-1:worker/1", "--", "cat", "out-1").stdout == b"result"
    (tmp_path / "more").write_text("x")
    assert dtfctl("put", str(tmp_path / "more"), "job:maker-1:worker/0:more").returncode == 0
    assert (dtfctl.folder / "more").read_text() == "x"


# what is left of a command: nothing

TREE = "import os, subprocess, sys, time; subprocess.Popen(['setsid', 'sleep', '{mark}']); os.fork(); time.sleep(99)"


def with_mark(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in words and b"dtfctl.cli" not in words and b"PROGRAM" not in words:
                found.append(entry.name)
    return found


@pytest.mark.parametrize("way", ["the caller is killed", "the caller is interrupted", "the agent is killed"])
def test_nothing_of_a_command_outlives_whoever_asked_for_it(dtfctl: Shell, way: str) -> None:
    mark = f"54{len(way)}.{os.getpid()}"  # nobody else's, and nothing that an earlier run left
    with dtfctl.start("exec", "worker/0", "--", "python3", "-c", TREE.format(mark=mark)) as caller:
        try:
            # guard, two pythons and the sleep in a session of its own
            wait_until(lambda: len([p for p in with_mark(mark) if p != str(caller.pid)]) >= 4, "the command runs")
            if way == "the agent is killed":
                os.kill(dtfctl.json("status")["hosts"][0]["agent_pid"], signal.SIGKILL)
                assert caller.wait(60) == 255
            else:
                caller.send_signal(signal.SIGKILL if way == "the caller is killed" else signal.SIGINT)
                assert caller.wait(60) == (-9 if way == "the caller is killed" else 130)
            wait_until(lambda: not with_mark(mark), "nothing is left of it")
        finally:
            caller.kill()
    wait_until(lambda: dtfctl.json("status")["healthy"], "the cluster is healthy")


def test_what_a_command_leaves_in_the_background_ends_with_it(dtfctl: Shell) -> None:
    mark = f"549.{os.getpid()}"
    done = dtfctl.process("exec", "worker/0", "--", "sh", "-c", f"setsid sleep {mark} & echo started")
    assert done.stdout == b"started\n"
    assert not with_mark(mark)


# on a terminal


def on_terminal(words: list[str], env: dict[str, str], rows: int, columns: int) -> tuple[subprocess.Popen[bytes], int]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    return process, master


def read_until(fd: int, condition: Callable[[str], bool], timeout_s: float = 60.0) -> str:
    text, deadline = "", time.monotonic() + timeout_s
    os.set_blocking(fd, False)
    while not condition(text):
        assert time.monotonic() < deadline, text
        try:
            text += os.read(fd, 65536).decode(errors="replace")
        except BlockingIOError:
            time.sleep(0.02)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            time.sleep(0.02)  # nobody has the terminal open: a process that ends is gone a moment later
    return text


_OF_THE_C_LIBRARY = 1 << (32 - 1) | 1 << (33 - 1)


def test_a_command_ignores_no_signals(dtfctl: Shell) -> None:
    """As after a login: not those that the agent, or who has started it, does not want to hear of."""
    said = dtfctl.process("exec", "worker/1", "--", "grep", "SigIgn", "/proc/self/status")
    name, ignored = said.stdout.decode().split()
    # The C library keeps two for itself, and ignores them in what `posix_spawn` starts, as `make` starts these tests.
    assert (name, int(ignored, 16) & ~_OF_THE_C_LIBRARY) == ("SigIgn:", 0), said.stderr


def has_terminal(*command: str) -> bool:
    """Whether a process of this command runs in the foreground of its terminal."""
    wanted = "".join(f"{word}\0" for word in command).encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if (folder / "cmdline").read_bytes() == wanted:
                _, _, group, _, _, foreground = (folder / "stat").read_text().rpartition(")")[2].split()[:6]
                return group == foreground
    return False


def test_a_shell_on_a_terminal_of_the_callers_size(dtfctl: Shell) -> None:
    process, master = on_terminal(command("exec", "-t", "worker/1", "--", "sh"), dtfctl.env, 31, 97)
    try:
        os.write(master, b"stty size; tty; echo is-$DTF_TASK_INDEX\n")
        text = read_until(master, lambda seen: "is-1" in seen.replace("is-$DTF", ""))
        assert "31 97" in text and "/dev/pts/" in text
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.kill(process.pid, signal.SIGWINCH)

        def resized(_text: str) -> bool:
            os.write(master, b"stty size\n")
            return "40 120" in _text

        read_until(master, resized)
        # An interrupt while the shell still starts its command would be the shell's own, which then loses what comes
        # next: it is for a command that has the terminal, not for dtfctl.
        os.write(master, b"sleep 90.25\n")
        wait_until(lambda: has_terminal("sleep", "90.25"), "it sleeps")
        os.write(master, b"\x03")
        read_until(master, lambda seen: "^C" in seen and seen.rstrip().endswith(("#", "$")))
        os.write(master, b"exit 9\n")
        read_until(master, lambda _: process.poll() is not None)
        assert process.returncode == 9
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert dtfctl("exec", "-t", "--each", "worker", "--", "sh").returncode == 2


def test_top_is_drawn_on_a_terminal_until_q(dtfctl: Shell) -> None:
    process, master = on_terminal(command("top"), dtfctl.env, 40, 140)
    try:
        text = read_until(master, lambda seen: "STEPS/S" in seen and "worker/1" in seen)
        assert "\x1b[?1049h" in text, "on a screen of its own"
        os.write(master, b"q")
        text = read_until(master, lambda _: process.poll() is not None)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


# attach


def test_attach_shows_one_run_of_a_task_and_ends_with_it(dtfctl: Shell) -> None:
    with dtfctl.start("attach", "worker/0") as attached:
        try:
            assert attached.stdout is not None and attached.stderr is not None
            assert b"worker/0 incarnation" in attached.stdout.readline()
            assert dtfctl("stop", "worker/0").returncode == 0
            assert attached.wait(60) == 0
            assert b"worker/0 is stopped" in attached.stderr.read()
        finally:
            attached.kill()
    refused = dtfctl("attach", "worker/0")
    assert refused.returncode == 7 and "dtfctl why worker/0" in refused.stderr
    assert dtfctl("attach", "worker").returncode == 2
    assert dtfctl("start", "worker/0").returncode == 0


# files


def tree(folder: Path) -> Path:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "deep" / "er" / "big").write_bytes(os.urandom(2_500_000))
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "nothing").touch()
    (folder / "deep" / "link").symlink_to("../run.sh")
    (folder / "outside").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    return folder


def content(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): path.readlink()
        if path.is_symlink()
        else (path.is_dir(), path.stat().st_mode, b"" if path.is_dir() else path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


def test_folders_go_there_and_back_whole(dtfctl: Shell, tmp_path: Path) -> None:
    source = tree(tmp_path / "model")
    sent = dtfctl("put", str(source), "worker:")
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout == f"worker/0: put 4 files, 2.4MiB: {user_home(dtfctl) / 'model'}\n"
    assert "left out outside" in sent.stderr and "left out pipe" in sent.stderr
    (source / "outside").unlink()
    (source / "pipe").unlink()
    assert content(user_home(dtfctl) / "model") == content(source)
    back = dtfctl("get", "worker/1:model", str(tmp_path / "back"))
    assert back.returncode == 0, back.stderr
    assert content(tmp_path / "back") == content(source)
    several = dtfctl("get", "worker:model/run.sh", str(tmp_path / "all"), "-o", "json")
    assert several.returncode == 0, several.stderr
    found = json.loads(several.stdout)
    assert (found["kind"], [r["files"] for r in found["results"]]) == ("Transfer", [1, 1])
    assert (tmp_path / "all" / "worker-1" / "run.sh").read_text() == "#!/bin/sh\n"


def test_a_file_gets_its_name_only_when_it_is_whole_and_what_is_wrong_is_said(dtfctl: Shell, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("new")
    (user_home(dtfctl) / "a").write_text("old")
    assert dtfctl("put", str(tmp_path / "a"), "host:localhost:a").returncode == 0
    assert (user_home(dtfctl) / "a").read_text() == "new"
    for words, code, text in [
        (["get", "worker/0:never", "."], 4, "no file"),
        (["put", str(tmp_path / "never"), "worker/0:"], 4, "no file"),
        (["put", str(tmp_path / "a"), "worker/0:no/folder/x"], 4, "no folder"),
        (["put", str(tmp_path / "a"), "worker/0:new/"], 4, "no folder"),
        (["get", "worker/0:a", str(tmp_path / "no" / "b")], 4, "no folder"),
        (["get", "a", "."], 2, "names no task"),
        (["put", str(tmp_path / "a"), "./b"], 2, "names no task"),
        (["put", str(tmp_path / "a"), "worker/9:b"], 4, "no task"),
    ]:
        done = dtfctl(*words)
        assert (done.returncode, text in done.stderr) == (code, True), (words, done.stderr)
    left = [path.name for path in user_home(dtfctl).iterdir() if path.name.startswith(".a")]
    assert not left


def test_a_command_whose_guard_is_killed_has_the_code_of_a_killed_one(dtfctl: Shell) -> None:
    """`pkill -f WORD` kills what has WORD in its command line, and the guard has all of the command's words."""
    done = dtfctl.process("exec", "worker/0", "--", "sh", "-c", "kill -9 $PPID")
    assert done.returncode == 137, (done.returncode, done.stderr)


def test_ssh_is_for_hosts_that_are_not_this_one(dtfctl: Shell) -> None:
    here = dtfctl("ssh", "localhost")
    assert here.returncode == 7 and "is this machine" in here.stderr
    assert dtfctl("ssh", "elsewhere").returncode == 4
    assert not [line for line in processes_of(dtfctl.folder / "home") if "guard.py" in line]
