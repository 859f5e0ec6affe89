"""What the launcher runs on a host, here in this process: bundles that are forgotten, facts, the shell's command."""

from __future__ import annotations

import _imp
import contextlib
import errno
import hmac
import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

import dtfctl
from dtfctl.launcher.providers import (
    host_agent,
    host_base,
    host_keys,
    host_layers,
    host_offers,
    host_owner,
    host_python,
    host_unpack,
    packing,
)
from dtfctl.launcher.providers.bundle import Platform
from dtfctl.launcher.providers.conversation import REPLY, bootstrap, source

pytestmark = pytest.mark.slow


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (host_base, host_layers, host_agent, host_keys, host_owner):
        monkeypatch.setattr(module, "BASE", str(tmp_path))
    return tmp_path


def make_runtime(base: Path, name: str, layer: str, days: float) -> None:
    """One that was last asked for so long ago."""
    (base / "runtime" / name / "bin").mkdir(parents=True)
    (base / "layers" / layer).mkdir(parents=True, exist_ok=True)
    (base / "runtime" / name / host_layers.LAYERS_FILE).write_text(json.dumps([{"hash": layer}]))
    then = time.time() - days * 86400
    for path in (base / "runtime" / name, base / "layers" / layer):
        os.utime(path, (then, then))


def left(base: Path) -> dict[str, list[str]]:
    return {kind: sorted(os.listdir(base / kind)) for kind in ("runtime", "layers")}


def test_layers_that_nobody_asks_for_go(base: Path) -> None:
    make_runtime(base, "old", "old-layer", 20)
    make_runtime(base, "new", "new-layer", 1)
    host_layers.forget_unused()
    assert left(base) == {"runtime": ["new"], "layers": ["new-layer"]}


def test_a_runtime_that_something_runs_from_stays_with_its_layers(base: Path) -> None:
    make_runtime(base, "old", "old-layer", 20)
    python = base / "runtime" / "old" / "bin" / "python"
    python.symlink_to(sys.executable)
    words = [python, "-I", "-S", "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()  # its command line is there only some time after `exec`
        host_layers.forget_unused()
        assert left(base) == {"runtime": ["old"], "layers": ["old-layer"]}
        assert running.stdin is not None
        running.stdin.close()
    host_layers.forget_unused()
    assert left(base) == {"runtime": [], "layers": []}


# ---------------------------------------------------------------- layers


def packed(folder: Path, **files: str) -> packing.Archive:
    path = folder / "a.layer"
    packing.pack(
        path, [(name.replace("__", "/") + ".py", text.encode()) for name, text in files.items()], compiled=True
    )
    return packing.described(path)


NAME = "a" * 24


def unpack(archive: packing.Archive, sha256: str = "") -> Path:
    copy = archive.path.with_name("copy")
    copy.write_bytes(archive.path.read_bytes())
    host_layers.unpack_layer(str(copy), NAME, sha256 or archive.sha256)
    assert not copy.exists()
    return Path(host_layers.folder_of(NAME))


def test_a_layer_comes_with_bytecode_that_is_used_and_names_its_own_place(base: Path, tmp_path: Path) -> None:
    folder = unpack(packed(tmp_path, pack____init__="import sys", pack__one="def where(): return where.__code__"))
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import importlib.util as u; from pack import one;"
        "print(one.where().co_filename); data = open(one.__cached__, 'rb').read();"
        "print(data[4:8] == bytes([1, 0, 0, 0]), data[8:16] == u.source_hash(open(one.__file__, 'rb').read()))"
    )
    (folder / "pack" / "one.py").touch()  # bytecode by time stamps would be stale now
    said = subprocess.run([sys.executable, "-v", "-I", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(folder / "pack" / "one.py"), "True", "True"]
    assert f"code object from '{folder}/pack/__pycache__/one" in said.stderr, "it was not compiled there"


def test_what_arrives_damaged_never_becomes_a_layer(base: Path, tmp_path: Path) -> None:
    archive = packed(tmp_path, one="x = 1" * 1000)
    with pytest.raises(host_base.Trouble, match="checksum"):
        unpack(archive, "0" * 64)
    whole = archive.path.read_bytes()
    archive.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(host_base.Trouble, match="middle"):
        unpack(archive)
    assert os.listdir(base / "layers") == []


def test_a_layer_with_a_file_outside_of_it_is_refused(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.layer"
    packing.pack(path, [("../../evil.py", b"")], compiled=False)
    with pytest.raises(host_base.Trouble, match="evil"):
        unpack(packing.described(path))
    assert not list(tmp_path.rglob("evil.py"))


@pytest.mark.parametrize("harm", ["shorter", "gone", "listing", "nothing"])
def test_a_layer_that_is_not_whole_is_asked_for_again(base: Path, tmp_path: Path, harm: str) -> None:
    folder = unpack(packed(tmp_path, one="x = 1", two="y = 2"))
    if harm == "shorter":
        (folder / "one.py").write_text("")
    elif harm == "gone":
        (folder / "two.py").unlink()
    elif harm == "listing":
        (folder / host_layers.LISTING).write_text("[[")
    wanted = [{"name": "core", "hash": NAME, "first": True}]
    assert host_layers.missing_layers(wanted, thorough=True) == ([] if harm == "nothing" else [NAME])
    assert folder.exists() == (harm == "nothing")


# ---------------------------------------------------------------- the Python that becomes the agent


def test_a_python_that_can_run_dtfctl_waits_and_ends_with_who_asked(base: Path) -> None:
    tried = host_python.try_python(sys.executable, str(base))
    assert not isinstance(tried, str), tried
    assert host_agent.start_ticks(tried.pid) is not None
    tried.end()
    assert not Path(f"/proc/{tried.pid}").exists()


def test_a_python_that_cannot_run_dtfctl_says_why_and_leaves_no_runtime(base: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    assert "No such file" in str(host_python.try_python(str(python), str(base)))
    python.write_text("#!/bin/sh\necho 'one\nno module ssl' >&2\nexit 3\n")
    python.chmod(0o700)
    with pytest.raises(host_base.Trouble, match="cannot run dtfctl: no module ssl"):
        host_layers.make_runtime("abc", [], python=str(python))
    assert os.listdir(base / "runtime") == []


def test_a_runtime_whose_trial_was_broken_off_is_tried_again_and_made_again(base: Path, tmp_path: Path) -> None:
    target = base / "runtime" / "abc"
    (target / "bin").mkdir(parents=True)
    (target / "bin" / "python").symlink_to("/bin/false")
    (base / "layers").mkdir()
    for name, folder in (("own", Path(dtfctl.__file__).parents[1]), ("core", Path(msgpack.__file__).parents[1])):
        (base / "layers" / name).symlink_to(folder)
    tried = host_layers.make_runtime("abc", [{"hash": "own"}, {"hash": "core"}])
    assert tried is not None
    tried.end()
    assert (target / host_layers.LAYERS_FILE).exists()
    assert os.readlink(target / "bin" / "python") == sys._base_executable  # type: ignore[attr-defined]


def test_a_library_that_this_host_cannot_load_is_found_before_it_is_used(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import dtfctl.launcher.providers.stand_by as s;"

    def said() -> str:
        words = [sys.executable, "-c", f"{code}s.check_library('pack', 'core')"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    assert "pack is for another Python" in said()
    (package / f"core{_imp.extension_suffixes()[0]}").write_bytes(b"no library")
    assert "invalid ELF header" in said() or "file too short" in said()


# ---------------------------------------------------------------- from host to host


@pytest.fixture
def offered(base: Path, tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Asks for a file that another process offers with one token."""
    archive = tmp_path / "offered"
    packing.pack(archive, [("noise.bin", os.urandom(3 << 20)), ("one.py", b"x = 1")], compiled=False)
    token = secrets.token_hex(32)
    port = host_offers.offer({NAME: str(archive)}, [token], "127.0.0.1")["port"]

    def take(**changes: Any) -> dict[str, Any]:
        asked = {"name": NAME, "size": archive.stat().st_size, "sha256": packing.described(archive).sha256}
        asked |= {"address": "127.0.0.1", "port": port, "token": token, "keep": True, **changes}
        return host_offers.take_layer(**asked)

    take.__dict__.update(archive=archive, port=port)
    yield take
    while host_offers._KEPT:
        os.close(host_offers._KEPT.pop())
    os.wait()


def test_who_knows_a_token_gets_a_layer_once(offered: Any) -> None:
    reply = offered()
    assert Path(reply["archive"]).read_bytes() == offered.archive.read_bytes()
    assert "refused" in offered(), "a token is good for one time"


def test_who_keeps_no_archive_has_the_layer_at_once(offered: Any, base: Path) -> None:
    assert offered(keep=False) == {}
    folder = base / "layers" / NAME
    assert (folder / "one.py").read_text() == "x = 1"
    assert (folder / "noise.bin").stat().st_size == 3 << 20
    assert host_layers.is_whole(NAME)
    assert os.listdir(base / "tmp") == []


def test_what_another_host_hands_on_damaged_never_becomes_a_layer(offered: Any, base: Path) -> None:
    with pytest.raises(host_base.Trouble, match="checksum"):
        offered(keep=False, sha256="0" * 64)
    assert os.listdir(base / "layers") == os.listdir(base / "tmp") == []


@pytest.mark.parametrize("keep", [True, False])
def test_a_host_whose_giver_ends_in_the_middle_is_left_with_nothing(base: Path, tmp_path: Path, keep: bool) -> None:
    path = tmp_path / "a.layer"
    packing.pack(path, [("noise.bin", os.urandom(3 << 20))], compiled=False)
    archive, token = packing.described(path), secrets.token_hex(32)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def end_early() -> None:
            connection = server.accept()[0]
            nonce = b"0" * 32
            connection.sendall(nonce)
            theirs = host_offers.exactly(connection, 24 + 32 + 32)[24:56]
            key = bytes.fromhex(token)
            connection.sendall(hmac.digest(key, b"give" + NAME.encode() + nonce + theirs, "sha256"))
            connection.sendall(path.read_bytes()[: archive.size // 2])
            connection.close()

        thread = threading.Thread(target=end_early)
        thread.start()
        port = server.getsockname()[1]
        reply = host_offers.take_layer(NAME, archive.size, "127.0.0.1", port, token, archive.sha256, keep)
        thread.join()
    assert reply == {"refused": "it ended in its middle"}
    assert all(os.listdir(folder) == [] for folder in (base / "tmp", base / "layers") if folder.exists())


@pytest.mark.parametrize("keep", [True, False])
def test_a_disk_that_is_full_is_told_as_such_and_not_as_the_givers_fault(
    offered: Any, base: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    with monkeypatch.context() as patch:
        for module, name in ((host_unpack.os, "write"), (host_offers, "open")):
            patch.setattr(module, name, full, raising=False)
        with pytest.raises(OSError, match="No space"):
            offered(keep=keep)
    assert all(os.listdir(folder) == [] for folder in (base / "tmp", base / "layers") if folder.exists())


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_who_does_not_know_a_token_gets_nothing(offered: Any, base: Path) -> None:
    assert offered(token="00" * 32) == {"refused": "it was refused"}
    assert "refused" in offered(name="b" * 24)
    assert os.listdir(base / "tmp") == []
    assert "archive" in offered(), "a guess does not use it up"


def test_idle_strangers_take_nobodys_place(offered: Any) -> None:
    """From one address, and from more addresses than there are places."""
    with contextlib.ExitStack() as stack:
        sources = [*["127.0.0.1"] * 40, *(f"127.0.1.{number}" for number in range(1, 41))]
        for source in sources:
            stack.enter_context(socket.create_connection(("127.0.0.1", offered.port), 60.0, (source, 0)))
        assert "archive" in offered()


def test_who_does_not_know_the_token_cannot_hand_on_either(base: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def lie() -> None:
            connection = server.accept()[0]
            connection.sendall(b"0" * 32)
            connection.recv(1000)
            connection.sendall(b"1" * 32 + b"x" * 100)
            connection.close()

        thread = threading.Thread(target=lie)
        thread.start()
        port = server.getsockname()[1]
        reply = host_offers.take_layer(NAME, 100, "127.0.0.1", port, secrets.token_hex(32), "", keep=True)
        thread.join()
    assert reply == {"refused": "somebody else answers there"}


def test_facts_are_what_the_standard_library_says_of_this_machine(base: Path) -> None:
    known = Platform.of_facts(host_base.facts())
    assert known.full_version == platform.python_version()
    assert known.implementation == platform.python_implementation()
    assert known.machine == platform.machine()
    assert known.libc == (platform.libc_ver()[0] or "musl")


def converse(place: Path, runtimes: tuple[str, ...], home: str | None = None) -> list[str]:
    """What comes of the shell's command on a host with this home, the source and one request."""
    program = source()
    done = subprocess.run(
        ["/bin/sh", "-c", bootstrap(len(program), runtimes, home)],
        input=program + b'{"do": "look", "cluster": "c", "host": "h"}\n',
        capture_output=True,
        env={"HOME": str(place), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
    )
    return done.stdout.decode().splitlines()


def test_a_runtime_that_does_not_run_any_more_is_passed_over(tmp_path: Path) -> None:
    """As after the Python that it leads to was replaced, or on the second kind of host that shares a home."""
    program = tmp_path / ".dtfctl" / "runtime" / "abc" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    hello, answer = converse(tmp_path, ("abc",))
    assert hello.startswith(REPLY + '{"hello": 1')
    assert '"facts"' in answer


@pytest.mark.parametrize("is_there", [True, False])
def test_dtfctls_own_python_answers_where_it_is_there_and_any_other_where_not(tmp_path: Path, is_there: bool) -> None:
    program = tmp_path / ".dtfctl" / "runtime" / "abc" / "bin" / "python"
    if is_there:
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\ntouch {tmp_path}/used\nexec {sys.executable} "$@"\n')
        program.chmod(0o700)
    hello, answer = converse(tmp_path, ("none-such", "abc"))
    assert hello.startswith(REPLY + '{"hello": 1')
    assert '"facts"' in answer
    assert (tmp_path / "used").exists() == is_there


def test_a_process_can_show_another_name(tmp_path: Path) -> None:
    code = f"from dtfctl.launcher.agent.fork import show_as; show_as(['agent', '--cluster', 'x']){' ' * 500}"
    code += "; print(open('/proc/self/cmdline').read())"
    shown = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.rstrip("\0\n") == "agent\0--cluster\0x"


def test_a_home_of_its_own_is_where_everything_lies(tmp_path: Path) -> None:
    _, answer = converse(tmp_path, (), home="~/of/mine")
    assert json.loads(answer.removeprefix(REPLY))["facts"]["base"] == f"{tmp_path}/of/mine"
    _, answer = converse(tmp_path, ())
    assert json.loads(answer.removeprefix(REPLY))["facts"]["base"] == f"{tmp_path}/.dtfctl"


def test_taking_a_cluster_over_leaves_no_file_that_would_stay_when_it_has_ended(base: Path) -> None:
    folder = base / "clusters" / "lab"
    for path in ("hosts/node1", "certificates", "logs"):
        (folder / path).mkdir(parents=True)
    me = {"user": "eve", "machine": "home", "home": "/h", "authority": "a" * 64}
    assert host_owner.adopt("lab", "node1", me)["found"]
    assert json.loads((folder / "owner.json").read_text())["user"] == "eve"
    host_owner.evict("lab")
    assert os.listdir(folder) == ["logs"]


def test_cleaning_deletes_the_logs_where_the_file_puts_them(base: Path, tmp_path: Path) -> None:
    logs = tmp_path / "elsewhere" / "lab"
    for folder in (logs, base / "clusters" / "lab"):
        folder.mkdir(parents=True)
        (folder / "worker-0.log").write_text("said")
    (tmp_path / "elsewhere" / "mine").write_text("stays")
    assert host_owner.clean_all("lab", None, force=False, logs=str(logs))["was_there"]
    assert os.listdir(tmp_path / "elsewhere") == ["mine"]
    assert not (base / "clusters" / "lab").exists()


class Meanwhile:
    """Has something else done by another process when this one has made its number `at` call of the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, work: Callable[[], object]) -> None:
        self._at, self._work = at, work
        self._own = threading.get_ident()
        self._other: threading.Thread | None = None
        self.calls = 0
        self.raised: list[Exception] = []
        for module, name in (
            *((os, name) for name in ("listdir", "unlink", "rmdir", "scandir", "open", "stat")),
            *((os.path, name) for name in ("exists", "isdir")),
        ):
            monkeypatch.setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            if threading.get_ident() == self._own:
                self.calls += 1
                if self.calls == self._at:
                    self._other = threading.Thread(target=self._do)
                    self._other.start()
                    self._other.join(0.05)  # where it has to wait for this one, that goes on
            return real(*words, **more)

        return call

    def _do(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.raised.append(error)

    def end(self) -> bool:
        """Wait for the other; whether it was begun."""
        if self._other is not None:
            self._other.join()
        return self._other is not None


def hosts_that_share(base: Path, *names: str) -> Path:
    """The files of a cluster whose hosts share a home; those of an agent that has ended."""
    folder = base / "clusters" / "lab"
    for name in names:
        (folder / "hosts" / name / "tasks").mkdir(parents=True)
        (folder / "hosts" / name / "state.json").write_text("{}")
        for of in ("agent", "task"):
            for end in ("key", "pem"):
                (folder / "certificates").mkdir(exist_ok=True)
                (folder / "certificates" / f"{of}-{name}.{end}").write_text("")
    (folder / "certificates" / "ca.pem").write_text("")
    stamp = {"authority": "a", "user": "u", "machine": "m", "folder": "f", "since": 0.0}
    (folder / "owner.json").write_text(json.dumps(stamp))
    (folder / "jobs" / "j" / "empty").mkdir(parents=True)
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "agent-node1.log").write_text("said")
    return folder


@pytest.mark.parametrize("how", ["clean", "clean_all"])
def test_hosts_that_share_a_home_are_cleaned_at_the_same_time(base: Path, how: str) -> None:
    """Wherever one is, when the other removes its files and those of the cluster."""

    def clean(host: str) -> None:
        if how == "clean":
            host_owner.clean("lab", host)
        else:
            host_owner.clean_all("lab", None, force=True)

    for at in range(1, 1000):
        folder = hosts_that_share(base, "node1", "node2")
        with pytest.MonkeyPatch.context() as patch:
            meanwhile = Meanwhile(patch, at, lambda: clean("node2"))
            clean("node1")
            begun = meanwhile.end()
        assert not meanwhile.raised, meanwhile.raised
        if not begun:
            assert at > 10
            return
        if how == "clean":
            assert sorted(map(str, folder.rglob("*"))) == [str(folder / "logs"), str(folder / "logs/agent-node1.log")]
        else:
            assert not folder.exists()


def test_a_host_that_leaves_takes_nothing_from_another_with_the_same_home(base: Path) -> None:
    folder = hosts_that_share(base, "node1", "node2")
    host_owner.clean("lab", "node1")
    assert sorted(os.listdir(folder)) == ["certificates", "hosts", "jobs", "logs", "owner.json"]
    assert os.listdir(folder / "hosts") == ["node2"]
    assert (folder / "hosts" / "node2" / "tasks").exists() and (folder / "jobs" / "j" / "empty").exists()
    assert sorted(os.listdir(folder / "certificates")) == [
        *("agent-node2.key", "agent-node2.pem", "ca.pem", "task-node2.key", "task-node2.pem")
    ]


def test_a_host_that_comes_while_the_last_of_the_same_home_leaves_keeps_what_it_has_got(base: Path) -> None:
    owner = {"authority": "a", "user": "u", "machine": "m", "folder": "f", "since": 0.0, "given_up": []}

    def come() -> None:
        host_owner.settle("lab", "node2", owner)
        host_agent.put_certificates("lab", {"ca.pem": "", "agent-node2.key": ""})

    for at in range(1, 1000):
        folder = hosts_that_share(base, "node1")
        with pytest.MonkeyPatch.context() as patch:
            meanwhile = Meanwhile(patch, at, come)
            host_owner.clean("lab", "node1")
            begun = meanwhile.end()
        assert not meanwhile.raised, meanwhile.raised
        if not begun:
            assert at > 10
            return
        assert os.listdir(folder / "hosts") == ["node2"]
        assert {"ca.pem", "agent-node2.key"} <= {*os.listdir(folder / "certificates")}
        assert json.loads((folder / "owner.json").read_text())["authority"] == "a"
        shutil.rmtree(folder)


def test_ending_one_of_two_clusters_of_a_name_leaves_the_key_of_the_other(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(base))
    keys = base / ".ssh" / "authorized_keys"
    keys.parent.mkdir()
    keys.write_text("ssh-ed25519 AAAA somebody\n")
    host_keys.authorize("t", "restrict ssh-ed25519 BBBB dtfctl-t")
    mine = keys.read_text()
    with monkeypatch.context() as patch:
        for module in (host_base, host_keys):
            patch.setattr(module, "BASE", str(base / "other"))
        host_keys.authorize("t", "restrict ssh-ed25519 CCCC dtfctl-t")
        assert keys.read_text() != mine
        host_keys.forget_key("dtfctl-t")
    assert keys.read_text() == mine
    host_keys.forbid("restrict ssh-ed25519 BBBB dtfctl-t")
    assert keys.read_text() == "ssh-ed25519 AAAA somebody\n"


def test_the_key_of_a_former_cluster_of_the_name_lets_nobody_in(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given up while this host was cut off, so that nobody took its line away."""
    monkeypatch.setenv("HOME", str(base))
    keys = base / ".ssh" / "authorized_keys"
    keys.parent.mkdir()
    keys.write_text("ssh-ed25519 AAAA somebody\n")
    host_keys.authorize("t", "restrict ssh-ed25519 BBBB dtfctl-t")
    host_keys.authorize("s", "restrict ssh-ed25519 DDDD dtfctl-s")
    host_keys.authorize("t", "restrict ssh-ed25519 CCCC dtfctl-t")
    found = [line.split()[-3:] for line in keys.read_text().splitlines()[1:]]
    assert found == [["DDDD", "dtfctl-s", str(base)], ["CCCC", "dtfctl-t", str(base)]]
    former = {"authority": "old", "user": "u", "machine": "m", "folder": "f", "since": 0.0}
    host_owner.settle("t", "h", {**former, "given_up": []})
    with pytest.raises(host_base.Trouble, match="its files here are gone"):
        host_owner.settle("t", "g", {**former, "authority": "new", "given_up": []})
    assert os.listdir(base / "clusters" / "t" / "hosts") == ["h"]
    host_owner.settle("t", "g", {**former, "authority": "new", "given_up": ["old"]})
    assert host_owner.read_stamp("t") == {**former, "authority": "new"}
    assert os.listdir(base / "clusters" / "t" / "hosts") == ["g"]
    assert [line.split()[-2] for line in keys.read_text().splitlines()[1:]] == ["dtfctl-s"], "this one has none"


def test_what_an_agent_left_that_is_gone_with_its_records_is_ended(base: Path) -> None:
    own = base / "clusters" / "c" / "hosts" / "h"
    own.mkdir(parents=True)
    words = [sys.executable, "-c", "input()", str(own / "runs" / "ps-0" / "1" / "config.json")]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as task:
        (own / "state.json").write_text("{}")
        assert host_owner.end_strays("c", "h") == 0, "an agent that begins knows it"
        (own / "state.json").unlink()
        held = host_agent.try_lock(str(own / "agent.lock"))
        assert held is not None
        assert host_owner.end_strays("c", "h") == 0, "an agent is there"
        os.close(held)
        assert task.poll() is None
        assert host_owner.end_strays("c", "other") == 0
        assert host_owner.end_strays("c", "h") == 1
        assert task.wait() == -signal.SIGKILL
