"""What a seed of tasks has imported, and what importing must not do if forks are to be like programs."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dtfctl import guard, seed
from dtfctl.launcher.agent.start.seeds import Reply, Request, Seed as AgentsSeed, Seeds
from dtfctl.launcher.messages import codec

IMPORTED = "from dtfctl import seed; seed.import_runtime()"


def run(code: str, **env: str) -> str:
    """What a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_importing_the_runtime_opens_nothing_and_leaves_one_thread_after_a_fork() -> None:
    opened = "import os; before = os.listdir('/proc/self/fd')"
    shown = "seed.check_threads(); print(sorted(set(os.listdir('/proc/self/fd')) - set(before)))"
    assert run(f"{opened}; {IMPORTED}; {shown}", OPENBLAS_NUM_THREADS="4") == "[]"


@pytest.mark.slow
def test_importing_the_runtime_reads_no_variable_of_each_task() -> None:
    code = """
import os
read = set()
class Noting(dict):
    def __getitem__(self, key):
        read.add(key)
        return dict.__getitem__(self, key)
    def get(self, key, default=None):
        read.add(key)
        return dict.get(self, key, default)
    def __contains__(self, key):
        read.add(key)
        return dict.__contains__(self, key)
os.environ = Noting(os.environ)
from dtfctl import seed
seed.import_runtime()
assert read
print(sorted(read & set(seed.OF_EACH_TASK)))
"""
    assert run(code) == "[]"


@pytest.mark.slow
def test_a_fork_imports_nothing_more_until_it_serves(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
{IMPORTED}
before = set(sys.modules)
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig
where = Path({str(tmp_path)!r})
cluster = {{"worker": {{0: "127.0.0.1:0", 1: "127.0.0.1:1"}}}}
server = TaskServer(TaskServerConfig(cluster, "worker", 0, 1, "127.0.0.1:0", where / "s", None, where))
server.start()
print(sorted(set(sys.modules) - before))
server.stop(0)
"""
    assert run(code) == "[]"


def test_another_thread_makes_forks_unsafe() -> None:
    code = """
import threading, time
from dtfctl import seed
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
try:
    seed.check_threads()
except RuntimeError as error:
    print(error)
"""
    assert "has started threads when it was imported" in run(code)


def test_a_file_that_was_rewritten_or_deleted_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "module_of_test_seed.py"
    module.write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("module_of_test_seed")
    monkeypatch.setattr("sys.modules", {"module_of_test_seed": sys.modules["module_of_test_seed"]})
    known = seed.stamps()
    assert seed.changed(known) == ""
    module.write_text("A = 'two'\n")
    assert seed.changed(known) == str(module)
    module.unlink()
    assert seed.changed(known) == str(module)


def test_a_seed_goes_on_after_a_fork_that_failed() -> None:
    """It says which, so that its agent starts a program instead, and forks the next one."""
    code = """
import os, socket, threading
from dtfctl import seed
from dtfctl.launcher.messages import codec
from dtfctl.launcher.agent.start.seeds import Reply, Request
mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
made = seed.Seed(theirs, None)
made._known = {}
made._keep = lambda request: os._exit(0)
real, left = os.fork, [1]
def fork():
    if left:
        left.pop()
        raise BlockingIOError(11, "no more processes")
    return real()
seed.os.fork = fork
thread = threading.Thread(target=made.serve)
thread.start()
said = [codec.decode(Reply, mine.recv(65536))]
for number in (1, 2):
    mine.send(codec.encode(Request(number, (), (), {}, "/")).encode())
    said.append(codec.decode(Reply, mine.recv(65536)))
mine.close()
thread.join(60.0)
print(said[0] == Reply(), said[1].number, "no more processes" in said[1].failed, said[2].number, said[2].pid > 0,
      thread.is_alive())
"""
    assert run(code) == "True 1 True 2 True False"


def test_an_agent_starts_what_its_seed_could_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seeds = Seeds(tmp_path, selectors.DefaultSelector())
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs:
        seed = AgentsSeed.__new__(AgentsSeed)
        seed.socket, seed.ready, seed._asked, seed.users = mine, True, 0, set()
        request = Request(1, (), (), {}, "/")
        seed.waiting = {1: ("worker/0", request)}
        before = guard.faults()
        theirs.send(codec.encode(Reply(1, failed="OSError: no more processes")).encode())
        assert seeds.hear(seed) == [("worker/0", request)]
        assert guard.faults() == before + 1 and "no more processes" in caplog.text and not seed.waiting
