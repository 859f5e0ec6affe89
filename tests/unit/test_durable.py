"""Files that are whole or absent: writers never meet, the disk has them, and killed ones leave nothing for long."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl import durable
from dtfctl.launcher.system.files import write_whole
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter
from dtfctl.runtime.framework import dtypes


def save(prefix: Path) -> None:
    with BundleWriter(str(prefix)) as writer:
        writer.add("x", np.arange(3.0), dtypes.float64)


def test_threads_that_write_one_file_never_mix_what_they_write(tmp_path: Path) -> None:
    path, failures = tmp_path / "state", list[BaseException]()

    def work(letter: bytes) -> None:
        try:
            for _ in range(30):
                write_whole(path, letter * 100_000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 100_000 and len(set(content)) == 1
    assert not failures
    assert os.listdir(tmp_path) == ["state"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the system is asked for: which kinds of files are synced, and when a name changes."""
    seen: list[str] = []
    fsync, rename = os.fsync, os.replace

    def on_fsync(fd: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def on_replace(*args: Any, **more: Any) -> None:
        seen.append("rename")
        rename(*args, **more)

    monkeypatch.setattr("os.fsync", on_fsync)
    monkeypatch.setattr("os.replace", on_replace)
    yield seen


def test_a_written_file_and_its_folder_are_on_the_disk(tmp_path: Path, calls: list[str]) -> None:
    write_whole(tmp_path / "state", b"x")
    assert calls == ["file", "rename", "folder"]
    calls.clear()
    save(tmp_path / "model")
    assert calls == ["file", "rename", "folder"] * 2


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter
from dtfctl.runtime.framework import dtypes
writer = BundleWriter(sys.argv[1])
writer.add("x", np.arange(3.0), dtypes.float64)
print("half", flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_the_next_save_removes_what_a_killed_one_left_and_no_other(tmp_path: Path) -> None:
    others = [tmp_path / "model.tempstate1234567890", tmp_path / "notes.tempstate"]
    for path in others:
        path.write_bytes(b"of another program")
    children = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / name)], stdout=subprocess.PIPE)
        for name in ("killed", "going-on")
    ]
    try:
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == b"half\n"
        left = {path.name for path in tmp_path.iterdir()} - {path.name for path in others}
        assert len(left) == 2
        children[0].send_signal(signal.SIGKILL)
        children[0].wait()
        save(tmp_path / "model")
        kept = {path.name for path in tmp_path.iterdir() if ".tempstate" in path.name}
        assert {name for name in kept if "killed" in name} == set()
        assert len({name for name in kept if "going-on" in name}) == 1
        assert {path.name for path in others} <= kept
    finally:
        for child in children:
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
    assert BundleReader(str(tmp_path / "model")).read("x").tolist() == [0, 1, 2]


def test_a_long_name_is_written_too(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_whole(path, b"x")
    assert path.read_bytes() == b"x" and not durable.remove_left(tmp_path)


def test_machine_code_is_read_from_a_private_folder_of_ours_only(tmp_path: Path) -> None:
    folder = tmp_path / "numba"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert durable.not_private(folder) == "" and stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    assert "can be written by others" in durable.not_private(folder)
    folder.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert durable.not_private(link) == "is no folder"
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        assert durable.not_private(folder) == "belongs to another user"


@pytest.mark.slow
def test_loops_are_compiled_without_a_folder_to_keep_them_in(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "dtfctl" / "native").mkdir(parents=True)
    (tmp_path / "dtfctl" / "native").chmod(0o777)
    source = "def twice(x, out):\n    for i in range(x.size):\n        out[i] = x[i] * 2\n"
    program = (
        "import numpy as np\nfrom dtfctl.runtime.kernels.compiled import jit\n"
        f"f = jit.jitted({source!r})\nx, out = np.arange(4.0), np.zeros(4)\nf(x, out)\nprint(out.tolist())\n"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[0.0, 2.0, 4.0, 6.0]\n" and "can be written by others" in done.stderr
    assert list((tmp_path / "dtfctl" / "native").iterdir()) == []


PART = """
import os, signal, sys
import numpy as np
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter
from dtfctl.runtime.framework import dtypes
with BundleWriter(sys.argv[1]) as writer:
    writer.add("x", np.arange(3.0), dtypes.float64)
print("done with its part", flush=True)
signal.pause()
"""


def parts_folder(prefix: Path, saver: str) -> Path:
    return prefix.with_name(f"{prefix.name}_temp_{saver * 32}")


@pytest.mark.slow
def test_the_next_save_removes_parts_of_dead_tasks_and_no_others(tmp_path: Path) -> None:
    """A part that is whole waits for those of other tasks: it is its writer's life that counts."""
    killed, alive, others = (parts_folder(tmp_path / "model-1", saver) for saver in "abc")
    others.mkdir()
    (others / "part-00000-of-00002.data-00000-of-00001").write_bytes(b"of another program")
    children = [
        subprocess.Popen([sys.executable, "-c", PART, str(folder / f"part-0000{n}-of-00002")], stdout=subprocess.PIPE)
        for n, folder in enumerate((killed, killed, alive))
    ]
    try:
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == b"done with its part\n"
        children[0].kill()
        children[0].wait()
        save(tmp_path / "model-2")
        assert killed.exists(), "one of its two writers lives"
        children[1].kill()
        children[1].wait()
        save(parts_folder(tmp_path / "model-2", "d") / "part-00000-of-00001")
        assert not killed.exists() and alive.exists() and others.exists()
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_parts_stay_until_their_saver_saves_again_or_its_session_ends(tmp_path: Path) -> None:
    """Whether its step failed or only this task's share of it is done, nobody can tell."""
    first, second, other = (
        parts_folder(tmp_path / f"model-{step}", saver) for step, saver in ((1, "a"), (2, "a"), (1, "b"))
    )
    with tf.Graph().as_default(), tf.Session() as session:
        folder = tf.placeholder(tf.string, [])
        prefix = tf.strings.join([folder, "/part-00000-of-00001"])
        value = tf.constant(1.0)
        part = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["v"], shape_and_slices=[""], tensors=[value])
        merged = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[prefix], destination_prefix=str(tmp_path / "whole"), delete_old_dirs=True
        )
        with tf.control_dependencies([part]):
            wrong = tf.debugging.Assert(tf.constant(False), [value])
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(wrong, {folder: str(first)})
        save(tmp_path / "another")
        assert first.exists()
        session.run(part, {folder: str(second)})
        assert not first.exists() and second.exists()
        session.run(merged, {folder: str(second)})
        assert not second.exists()
        assert tf.train.load_checkpoint(str(tmp_path / "whole")).get_tensor("v") == 1.0
        session.run(part, {folder: str(other)})
        save(tmp_path / "another")
        assert other.exists()
    del session, part
    gc.collect()
    save(tmp_path / "another")
    assert not other.exists()
