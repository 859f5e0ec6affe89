"""What a seed of tasks has imported, and what importing must not do if forks are to be like programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtfctl import seed

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
