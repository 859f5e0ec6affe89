"""The keeper as a process of its own: status, log, limits, what it cleans up."""

from __future__ import annotations

import os
import py_compile
import re
import resource
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.agent.start import keeper as keeper_module, logs
from dtfctl.launcher.agent.start.kept_process import (
    KeeperStatus,
    ending_of,
    forbid_start,
    keeper_command,
    make_room,
    read_status,
)
from dtfctl.launcher.messages.reports import LogPosition

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
Keep = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Start a keeper for a shell command."""

    def start(script: str, *, rotate: int = 10**6, files: int = 2, rate: int = 10**7) -> subprocess.Popen[bytes]:
        make_room(tmp_path)
        command = [*keeper_command(), str(tmp_path), str(tmp_path / "log"), str(rotate)]
        return subprocess.Popen([*command, str(files), str(rate), "", "0", "", "/bin/sh", "-c", script])

    return start


def lines(tmp_path: Path) -> list[tuple[str, str]]:
    found = []
    for line in (tmp_path / "log").read_text().splitlines():
        _, stream, text = line.split(" ", 2)
        found.append((stream, text))
    return found


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


FAULTY = """
import sys
sys.path.insert(0, {folder!r})
import keeper
for owner, name in ((keeper.Lines, "add"), (keeper.Log, "pause_s"), (keeper.Lines, "flush"), (keeper.os, "killpg")):
    def wrong(*args, real=getattr(owner, name), left=[1 if {always} is None else 10**9], what=name):
        if left[0] and {always} in (None, what):
            left[0] -= 1
            raise ValueError(f"nobody foresaw {{what}}")
        return real(*args)
    setattr(owner, name, wrong)
sys.exit(keeper.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("always", [None, "pause_s", "add"])
def test_a_keeper_goes_on_after_what_a_turn_raises(tmp_path: Path, always: str | None) -> None:
    """And where it cannot, at least the end of its process is known."""
    make_room(tmp_path)
    code = FAULTY.format(folder=str(Path(keeper_module.__file__).parent), always=repr(always))
    command = [sys.executable, "-S", "-E", "-c", code, str(tmp_path), str(tmp_path / "log"), "1000000", "2", "10000000"]
    lost = f"grep -q 'nobody foresaw add' {tmp_path / 'log'}"  # with the first line, and with no other
    wait = f"until {lost}; do sleep 0.05; done" if always is None else "sleep 0.2"
    script = f"echo one; {wait}; echo two; exit 3"
    done = subprocess.run([*command, "", "0", "", "/bin/sh", "-c", script], timeout=120)
    status = read_status(tmp_path)
    assert done.returncode == 0 and status is not None and (status.phase, status.exit_code) == ("ended", 3)
    said = lines(tmp_path)
    assert any("the keeper failed, and goes on: ValueError" in text for _, text in said)
    assert ("out", "two") in said or always is not None


def test_output_exit_code_and_pids_are_recorded(keep: Keep, tmp_path: Path) -> None:
    keeper = keep("echo out; echo err >&2; exit 3")
    assert keeper.wait(PATIENCE_S) == 0
    status = read_status(tmp_path)
    assert status is not None
    assert (status.phase, status.exit_code, status.signal, status.keeper.pid) == ("ended", 3, 0, keeper.pid)
    assert status.max_rss_bytes > 0
    assert sorted(lines(tmp_path)) == [("err", "err"), ("out", "out")]


def test_a_signal_is_recorded_as_a_shell_would(keep: Keep, tmp_path: Path) -> None:
    keep("kill -9 $$").wait(PATIENCE_S)
    ending = ending_of(read_status(tmp_path))
    assert (ending.exit_code, ending.signal) == (137, 9)


def test_a_command_that_is_not_there_ends_with_127(tmp_path: Path) -> None:
    make_room(tmp_path)
    command = [*keeper_command(), str(tmp_path), str(tmp_path / "log"), "1000", "1", "1000", "", "0", ""]
    subprocess.run([*command, "/no/such/program"], check=True, timeout=PATIENCE_S)
    status = read_status(tmp_path)
    assert status is not None
    assert status.exit_code == 127
    assert lines(tmp_path) == [("err", "cannot run /no/such/program: No such file or directory")]


def test_what_runs_and_has_said_nothing_has_an_empty_log(keep: Keep, tmp_path: Path) -> None:
    keeper = keep("exec sleep 600")
    wait_for(lambda: (s := read_status(tmp_path)) and s.phase == "running")
    assert (tmp_path / "log").read_bytes() == b""
    status = read_status(tmp_path)
    assert status is not None and status.task is not None
    os.kill(status.task.pid, signal.SIGKILL)
    keeper.wait(PATIENCE_S)


def test_it_outlives_sigterm_and_its_starter(keep: Keep, tmp_path: Path) -> None:
    keeper = keep("sleep 0.5; exit 4")
    wait_for(lambda: (s := read_status(tmp_path)) and s.phase == "running")
    keeper.send_signal(signal.SIGTERM)
    keeper.send_signal(signal.SIGHUP)
    keeper.wait(PATIENCE_S)
    status = read_status(tmp_path)
    assert status is not None
    assert status.exit_code == 4


def test_what_the_task_leaves_behind_in_its_group_is_killed(keep: Keep, tmp_path: Path) -> None:
    keeper = keep(f"sleep 600 & echo $! > {tmp_path}/pid; exit 0")
    keeper.wait(PATIENCE_S)
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def test_a_start_that_was_given_up_does_not_happen(keep: Keep, tmp_path: Path) -> None:
    assert forbid_start(tmp_path) is None
    keep(f"touch {tmp_path}/ran").wait(PATIENCE_S)
    assert not (tmp_path / "ran").exists()


def test_a_start_that_happened_cannot_be_given_up(keep: Keep, tmp_path: Path) -> None:
    keep("exit 0").wait(PATIENCE_S)
    status = forbid_start(tmp_path)
    assert status is not None
    assert status.phase == "ended"


def test_the_log_is_rotated_and_old_files_are_dropped(keep: Keep, tmp_path: Path) -> None:
    keep("i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); sleep 0.001; done", rotate=2000, files=2).wait(60)
    names = sorted(path.name for path in tmp_path.glob("log*"))
    assert names == ["log", "log.1", "log.2"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.glob("log*"))
    text = "".join(path.read_text() for path in logs.files_of(tmp_path / "log"))
    assert text.rstrip().endswith("line 299")


NUMBERS = "i=0; while [ $i -lt {0} ]; do seq $((i+1)) $((i+1000)); i=$((i+1000)); done"


def add_texts(found: list[str], data: bytes, begun: bool) -> bool:
    """Put lines together again that their writer was held up in; whether the last one goes on."""
    for line in data.decode().splitlines():
        _, stream, text = line.split(" ", 2)
        found.append((found.pop() if begun else "") + text)
        begun = stream.endswith("+")
    return begun


def texts_after(log: Path, position: LogPosition) -> tuple[list[str], LogPosition]:
    """The texts after `position`, and where they end."""
    found: list[str] = []
    begun = False
    while True:
        chunk = logs.read(log, position, logs.LEAST_BYTES)
        begun = add_texts(found, chunk.data, begun)
        position = chunk.next
        if chunk.at_end:
            return found, position


@pytest.mark.slow
def test_who_writes_faster_than_the_rate_waits_and_nothing_is_lost(keep: Keep, tmp_path: Path) -> None:
    keep(NUMBERS.format(100_000), rotate=500_000, files=20, rate=1_000_000).wait(PATIENCE_S)
    found, _ = texts_after(tmp_path / "log", LogPosition("x"))
    assert found == [str(number) for number in range(1, 100_001)]


def test_what_rotation_dropped_is_marked_in_its_place_and_the_end_is_there(keep: Keep, tmp_path: Path) -> None:
    keep("echo first", rotate=50_000, files=1).wait(PATIENCE_S)
    found, position = texts_after(tmp_path / "log", LogPosition("x"))
    assert found == ["first"]
    keep2 = keep_again(keep, tmp_path, NUMBERS.format(24_000))
    keep2.wait(PATIENCE_S)
    found, position = texts_after(tmp_path / "log", position)
    mark, *rest = found
    kept = sum(path.stat().st_size for path in tmp_path.glob("log*"))
    assert rest == [str(number) for number in range(24_001 - len(rest), 24_001)]
    # Two files of 50,000 bytes, and what a pipe of 64 KiB may have held at the end.
    assert 100 < len(rest) < 16_000
    lost = position.offset - kept - len("2026-01-31T12:00:00.123Z out first\n")
    assert (
        mark == f"dtfctl: \u2026 {lost:,} bytes of output dropped here by the limits logs.rotate and logs.keep \u2026"
    )
    assert texts_after(tmp_path / "log", position) == ([], position)


@pytest.mark.slow
def test_rotation_waits_for_who_is_reading_what_it_would_delete(keep: Keep, tmp_path: Path) -> None:
    """A reader that takes a little now and then gets all of far more than the files hold."""
    log = tmp_path / "log"
    keeper = keep(NUMBERS.format(120_000), rotate=10**6, files=1, rate=10**6)
    found: list[str] = []
    begun = False
    position = LogPosition("x")
    while True:
        over = keeper.poll() is not None
        chunk = logs.read(log, position, logs.LEAST_BYTES)
        if chunk.data:
            logs.note_reader(log, chunk)
        begun = add_texts(found, chunk.data, begun)
        position = chunk.next
        if over and chunk.at_end:
            break
        # It is there when the second file is begun, which takes little longer to fill, and then slower than the writer.
        time.sleep(0.4 if log.with_name("log.1").exists() else 0.01)
    assert found == [str(number) for number in range(1, 120_001)]


def keep_again(keep: Keep, tmp_path: Path, script: str) -> subprocess.Popen[bytes]:
    """The next start, with the same log."""
    for name in ("status", "room"):
        (tmp_path / name).unlink(missing_ok=True)
    return keep(script, rotate=50_000, files=1)


def test_a_tail_begins_at_a_line_and_passes_over_what_the_keeper_noted(keep: Keep, tmp_path: Path) -> None:
    keep(NUMBERS.format(3000), rotate=20_000, files=5).wait(PATIENCE_S)
    log = tmp_path / "log"
    for count in (1, 500, 1500, 2500):
        position = logs.read(log, LogPosition("x"), logs.LEAST_BYTES, count).next
        first = logs.read(log, LogPosition("x"), logs.LEAST_BYTES, count).data.split(b"\n")[0].split(b" ")[2]
        assert int(first) == 3001 - count, position


@pytest.mark.slow
def test_what_is_in_the_pipe_when_the_task_is_killed_is_read_however_slow_the_rate(keep: Keep, tmp_path: Path) -> None:
    keeper = keep("seq 1 60000; seq 60001 66000; kill -9 $$", rotate=10**6, rate=300_000, files=0)
    keeper.wait(PATIENCE_S)
    found, _ = texts_after(tmp_path / "log", LogPosition("x"))
    assert found[-6000:] == [str(number) for number in range(60_001, 66_001)]


def test_a_disk_that_was_full_leaves_a_mark_and_the_last_lines(keep: Keep, tmp_path: Path) -> None:
    """A limit of file sizes stands for the disk; it is lifted as a disk is tidied up."""
    keeper = keep(f"echo before; until [ -e {tmp_path}/go ]; do sleep 0.01; done; seq 1 50000; sleep 1; echo after")
    wait_for(lambda: "before" in (((tmp_path / "log").exists() and (tmp_path / "log").read_text()) or ""))
    before = resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    (tmp_path / "go").touch()
    pipe_is_read = tmp_path / "status"
    assert pipe_is_read.exists()
    time.sleep(0.5)
    resource.prlimit(keeper.pid, resource.RLIMIT_FSIZE, before)
    keeper.wait(PATIENCE_S)
    found, _ = texts_after(tmp_path / "log", LogPosition("x"))
    mark = next(at for at, text in enumerate(found) if "dropped here" in text)
    assert found[0] == "before"
    assert found[-1] == "after"
    assert found[-1001:-1] == [str(number) for number in range(49_001, 50_001)]
    numbers = [int(text) for text in found[1:-1] if text.isdigit()]
    assert numbers == sorted(set(numbers))
    lost = set(range(1, 50_001)) - set(numbers)
    stated = int(re.search(r"(\d+) bytes", found[mark])[1])  # type: ignore[index]
    assert stated == sum(len("2026-01-31T12:00:00.123Z out \n") + len(str(number)) for number in lost)


def test_a_full_disk_loses_output_but_not_the_exit_code(tmp_path: Path) -> None:
    """/dev/full answers every write with 'no space left'."""
    make_room(tmp_path)
    command = [*keeper_command(), str(tmp_path), "/dev/full", "1000", "0", "1000000", "", "0", ""]
    subprocess.run([*command, "/bin/sh", "-c", "echo lost; exit 5"], check=True, timeout=PATIENCE_S)
    status = read_status(tmp_path)
    assert status is not None
    assert status.exit_code == 5


def test_a_damaged_status_is_not_believed(keep: Keep, tmp_path: Path) -> None:
    keep("exit 0").wait(PATIENCE_S)
    data = bytearray((tmp_path / "status").read_bytes())
    data[0] ^= 1
    (tmp_path / "status").write_bytes(data)
    assert read_status(tmp_path) is None


def write_log(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        for number in range(first, last):
            file.write(f"2026-01-01T00:00:00.{number:03d}Z out {number}\n")


def read_all(log: Path, position: LogPosition, max_bytes: int = 100) -> tuple[list[int], LogPosition]:
    numbers: list[int] = []
    while True:
        chunk = logs.read(log, position, max_bytes)
        numbers += [int(line.split()[-1]) for line in chunk.data.splitlines()]
        position = chunk.next
        if chunk.at_end and not chunk.data:
            return numbers, position


def test_a_reader_follows_through_rotations(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 0, 10)
    numbers, position = read_all(log, LogPosition("p"))
    write_log(log, 10, 15)
    os.replace(log, tmp_path / "log.1")
    write_log(log, 15, 20)
    more, _ = read_all(log, position)
    assert numbers + more == list(range(20))


def test_a_reader_whose_file_is_gone_goes_on_with_the_oldest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 0, 10)
    _, position = read_all(log, LogPosition("p"))
    log.rename(tmp_path / "gone")
    write_log(log, 30, 33)
    assert read_all(log, position)[0] == [30, 31, 32]


def test_a_line_that_is_not_finished_is_not_read_yet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write_log(log, 0, 2)
    with log.open("a") as file:
        file.write("2026-01-01T00:00:00.002Z out 2")
    numbers, position = read_all(log, LogPosition("p"))
    with log.open("a") as file:
        file.write("2\n")
    assert numbers + read_all(log, position)[0] == [0, 1, 22]


@pytest.mark.parametrize(
    ("tail", "expected"), [(1, [19]), (3, [17, 18, 19]), (20, list(range(20))), (99, list(range(20)))]
)
def test_the_tail_reaches_into_older_files(tmp_path: Path, tail: int, expected: list[int]) -> None:
    log = tmp_path / "log"
    write_log(tmp_path / "log.1", 0, 18)
    write_log(log, 18, 20)
    chunk = logs.read(log, LogPosition("p"), 10**6, tail)
    numbers = [int(line.split()[-1]) for line in chunk.data.splitlines()]
    numbers += read_all(log, chunk.next)[0]
    assert numbers == expected


def test_the_last_errors_are_of_this_run_only(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "2026-01-01T00:00:01.000Z err old\n2026-01-01T00:00:02.000Z out no\n"
        "2026-01-01T00:00:02.000Z err+ a \n2026-01-01T00:00:02.500Z err b\n"
    )
    assert logs.last_errors(log, "2026-01-01T00:00:02.000Z") == ("a b",)


def test_it_runs_from_source_where_nothing_compiled_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module.__spec__, "cached", str(tmp_path / "none.pyc"))
    assert keeper_command()[-1] == keeper_module.__file__
    stale = tmp_path / "stale.pyc"
    monkeypatch.setattr(keeper_module.__spec__, "cached", str(stale))
    source = Path(keeper_module.__file__)
    py_compile.compile(str(source), str(stale), doraise=True)
    assert keeper_command()[-1] == str(stale)
    os.utime(stale)
    stale.write_bytes(stale.read_bytes()[:8] + b"\1\2\3\4" + stale.read_bytes()[12:])
    assert keeper_command()[-1] == str(source), "compiled from another version of it"


def test_a_process_enters_its_memory_group_before_it_runs(tmp_path: Path) -> None:
    make_room(tmp_path)
    group = tmp_path / "procs"
    command = [*keeper_command(), str(tmp_path), str(tmp_path / "log"), "1000", "1", "1000", str(group), "0", ""]
    subprocess.run([*command, "/bin/cat", str(group)], check=True, timeout=PATIENCE_S)
    assert lines(tmp_path) == [("out+", "0")], "0 is whoever writes it"


def run_limited(folder: Path, memory_bytes: int, cores: str, code: str) -> KeeperStatus | None:
    """Run Python code under a keeper that holds its limits."""
    make_room(folder)
    command = [
        *keeper_command(),
        str(folder),
        str(folder / "log"),
        "100000",
        "1",
        "100000",
        "",
        str(memory_bytes),
        cores,
    ]
    subprocess.run([*command, sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
    return read_status(folder)


def test_what_uses_more_memory_than_it_may_is_killed_and_it_is_written_down(tmp_path: Path) -> None:
    status = run_limited(tmp_path, 60 << 20, "", "import time\nx = bytearray(150 << 20)\ntime.sleep(600)")
    assert status is not None
    assert (status.exit_code, status.signal) == (137, signal.SIGKILL)
    assert 60 << 20 < status.over_bytes < 400 << 20


def test_the_memory_of_its_children_counts_and_what_they_share_counts_once(tmp_path: Path) -> None:
    forks = (
        "import os, time\nx = bytearray(60 << 20)\nfor _ in range(4):\n    os.fork() or time.sleep(1) or os._exit(0)\n"
    )
    status = run_limited(tmp_path, 140 << 20, "", forks + "for _ in range(4):\n    os.wait()\n")
    assert status is not None and (status.exit_code, status.over_bytes) == (0, 0), "five see the same 60 MiB"
    apart = tmp_path / "apart"
    apart.mkdir()
    code = "import os, time\nif not os.fork():\n    os.setsid(); x = bytearray(200 << 20); time.sleep(600)\nos.wait()"
    status = run_limited(apart, 140 << 20, "", code)
    assert status is not None and status.over_bytes > 140 << 20, "also in a session of its own"


def test_it_runs_on_its_cores(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    run_limited(tmp_path, 0, str(core), "import os; print(os.sched_getaffinity(0))")
    assert lines(tmp_path) == [("out", str({core}))]


def test_what_a_keeper_of_an_older_version_wrote_is_read(tmp_path: Path) -> None:
    text = "ended 10 20 30 40 3 0 1024 1700000000.000"
    (tmp_path / "status").write_text(f"{text} {zlib.crc32(text.encode()):08x}\n")
    status = read_status(tmp_path)
    assert status is not None and (status.exit_code, status.over_bytes) == (3, 0)


def test_memory_is_looked_at_also_while_output_waits(tmp_path: Path) -> None:
    make_room(tmp_path)
    command = [*keeper_command(), str(tmp_path), str(tmp_path / "log"), "1000000", "1", "1000", "", str(80 << 20), ""]
    code = "print('x' * 200_000, flush=True)\nx = bytearray(200 << 20)\nimport time; time.sleep(600)"
    subprocess.run([*command, sys.executable, "-c", code], check=True, timeout=PATIENCE_S * 4)
    status = read_status(tmp_path)
    assert status is not None and status.over_bytes > 80 << 20
