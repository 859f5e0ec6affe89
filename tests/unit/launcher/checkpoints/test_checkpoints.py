"""Folders that hosts keep alike: versions, what may appear when, and what a record notices and takes."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dtfctl.launcher.checkpoints import manifest, record as module, replica
from dtfctl.launcher.checkpoints.folders import Folders
from dtfctl.launcher.checkpoints.manifest import (
    Entry,
    is_allowed,
    is_complete,
    is_newer,
    is_replicated,
    listed,
    must_stay,
    to_take,
    whole,
)
from dtfctl.launcher.checkpoints.record import Record
from dtfctl.launcher.controller.decisions.checkpoint_folders import (
    CONTROLLER,
    Kept,
    acknowledged,
    folder_orders,
    holders_of,
)
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord, Placed
from dtfctl.launcher.errors import NotFound, TransferFailed
from dtfctl.launcher.messages.agent import ListFilesRequest, ReadFileRequest
from dtfctl.launcher.messages.orders import FolderOrder, FolderPeer
from dtfctl.launcher.messages.reports import FolderReport, Report
from dtfctl.launcher.model import ClientStatus, JobRequest
from dtfctl.launcher.spec.model import Checkpoints, ClusterSpec, HostGroup, HostName, TaskGroup
from dtfctl.runtime.train import checkpoint_management
from dtfctl.values import replace
from tests.support.waiting import eventually, in_thread

DATA, INDEX, STATE = "m-1.data-00000-of-00002", "m-1.index", "checkpoint"
OTHER_DATA = "m-1.data-00001-of-00002"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 0.0)


def settled(folder: Path) -> Record:
    record = Record(folder)
    look(record)
    return record


def look(record: Record) -> None:
    record.scan()  # seen
    record.scan()  # and not changed since


def give(giver: Record, taker: Record) -> list[str]:
    """Bring over all that is newer, as a replica does; what was brought."""
    taken = []
    taker.hear(giver.clock)
    for entry in to_take(taker.entries, giver.entries.values(), taker.busy, taker.floor):
        if entry.deleted:
            taker.remove(entry)
        elif not is_complete(entry.path, taker.entries) or not taker.store(entry, reading(giver, entry)):
            continue
        taken.append(entry.path)
    return taken


def reading(giver: Record, entry: Entry) -> Callable[[int], bytes]:
    return lambda at: giver.read(entry.path, entry.sha256, at)


def test_data_come_before_what_says_that_they_are_whole_and_deletions_last() -> None:
    theirs = [Entry(STATE, 1), Entry("m-0.index", 2, deleted=True), Entry(INDEX, 1), Entry(DATA, 1)]
    assert [entry.path for entry in to_take({}, theirs, ())] == [DATA, INDEX, STATE, "m-0.index"]
    assert to_take({}, theirs, {DATA})[0].path == INDEX, "what is being written here is left alone"


def test_an_index_appears_only_when_all_data_are_here() -> None:
    assert not is_complete(INDEX, {DATA: Entry(DATA, 1)})
    assert is_complete(INDEX, {DATA: Entry(DATA, 1), OTHER_DATA: Entry(OTHER_DATA, 1)})
    assert not is_complete(INDEX, {DATA: Entry(DATA, 1), OTHER_DATA: Entry(OTHER_DATA, 2, deleted=True)})


@pytest.mark.parametrize(
    "path",
    [".hidden", "a/.b/c", "x.tmp", "x.part", "m-1.index.tempstate12", "m_temp_ab/part-0", "events.out.tfevents.1"],
)
def test_what_is_unfinished_or_a_log_is_not_replicated(path: str) -> None:
    assert not is_replicated(path)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/../b", "", "a/./b", ".dtfctl/files.json", "a\0b"])
def test_no_name_of_another_host_leads_out_of_the_folder(path: str) -> None:
    assert not is_allowed(Entry(path, 1))
    assert to_take({}, [Entry(path, 1)], ()) == []


def test_all_hosts_come_to_the_same_conclusion_about_two_versions() -> None:
    one, two = Entry("x", 3, sha256="aa"), Entry("x", 3, sha256="bb")
    assert (is_newer(one, two), is_newer(two, one)) == (False, True)


def test_files_go_from_one_record_to_another_and_changes_and_deletions_follow(tmp_path: Path) -> None:
    one, two = Record(tmp_path / "one"), Record(tmp_path / "two")
    for name in (DATA, OTHER_DATA, INDEX, "m-1.meta", "sub/weights.pt"):
        path = tmp_path / "one" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    look(one)
    assert give(one, two) == [DATA, OTHER_DATA, "m-1.meta", "sub/weights.pt", INDEX]
    assert give(one, two) == []
    assert (tmp_path / "two/sub/weights.pt").read_text() == "sub/weights.pt"
    look(two)
    assert give(two, one) == [], "a copy is no change"
    assert whole(two.entries) == ("sub/weights.pt", "m-1")

    (tmp_path / "two/sub/weights.pt").write_text("newer")
    look(two)
    assert give(two, one) == ["sub/weights.pt"]
    assert (tmp_path / "one/sub/weights.pt").read_text() == "newer"

    (tmp_path / "two" / INDEX).unlink()
    look(two)
    give(two, one)
    left = sorted(path.name for path in (tmp_path / "one").iterdir() if path.is_file())
    assert left == [], "what belongs to a deleted index goes with it"
    look(one)
    one.save()
    assert settled(tmp_path / "one").entries == one.entries, "the record is on the disk"


def test_a_folder_that_was_deleted_as_a_whole_is_filled_again(tmp_path: Path) -> None:
    one, two = Record(tmp_path / "one"), Record(tmp_path / "two")
    (tmp_path / "one/x").write_text("x")
    look(one)
    give(one, two)
    shutil.rmtree(tmp_path / "two")
    look(two)
    assert give(two, one) == []
    assert give(one, two) == ["x"]


def test_what_comes_damaged_or_too_long_is_not_taken_and_leaves_nothing(tmp_path: Path) -> None:
    record = Record(tmp_path)
    entry = Entry("x", 1, 3, hashlib.sha256(b"abc").hexdigest())
    for content in (b"abd", b"abcd", b""):
        with pytest.raises(TransferFailed):
            record.store(entry, lambda at, content=content: content[at:])  # type: ignore[misc]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    assert record.store(entry, lambda at: b"abc"[at:])


def test_a_file_that_is_written_here_meanwhile_wins(tmp_path: Path) -> None:
    record = Record(tmp_path)
    (tmp_path / "x").write_text("mine")
    entry = Entry("x", 7, 3, hashlib.sha256(b"abc").hexdigest())
    assert not record.store(entry, lambda at: b"abc"[at:])
    assert (tmp_path / "x").read_text() == "mine"


def test_only_the_version_that_was_told_is_given(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("first")
    record = settled(tmp_path)
    sha = record.entries["x"].sha256
    assert record.read("x", sha, 2) == b"rst"
    (tmp_path / "x").write_text("second")
    with pytest.raises(NotFound):
        record.read("x", sha, 0)
    (tmp_path / "x").unlink()
    os.symlink("/etc/passwd", tmp_path / "x")
    with pytest.raises(NotFound):
        record.read("x", sha, 0)


def test_no_file_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    record = Record(tmp_path / "folder")
    os.symlink(tmp_path / "outside", tmp_path / "folder/sub")
    with pytest.raises(TransferFailed):
        record.store(Entry("sub/x", 1, 3, hashlib.sha256(b"abc").hexdigest()), lambda at: b"abc"[at:])
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_checkpoint_that_the_state_no_longer_lists_does_not_count() -> None:
    names = [f"m-{n}.{kind}" for n in (1, 2) for kind in ("index", "data-00000-of-00001")]
    own = {name: Entry(name, 1, mtime_ns=at) for at, name in enumerate(names)}
    assert whole(own) == ("m-1", "m-2")
    assert whole(own, listed('model_checkpoint_path: "/c/m-1"\nall_model_checkpoint_paths: "/c/m-1"\n')) == ("m-1",)


# How much is remembered and looked at ------------------------------------------------------------------------------


def test_files_that_are_taken_do_not_each_write_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    one, two = Record(tmp_path / "one"), Record(tmp_path / "two")
    for number in range(50):
        (tmp_path / f"one/w-{number}.pt").write_text(str(number))
    look(one)
    monkeypatch.setattr(module, "write_whole", lambda path, data: written.append(path))
    assert len(give(one, two)) == 50
    assert written == []
    two.save()
    two.save()
    assert written == [tmp_path / "two/.dtfctl/files.json"]


def test_what_changed_after_the_record_was_stored_is_newer_than_what_was_told_before(tmp_path: Path) -> None:
    one, two = Record(tmp_path / "one"), Record(tmp_path / "two")
    (tmp_path / "one/x").write_text("first")
    look(one)
    one.save()
    for text in ("second", "third"):
        (tmp_path / "one/x").write_text(text)
        look(one)
        give(one, two)
    # Its agent is killed before it has stored that, and the file is written again before there is another.
    (tmp_path / "one/x").write_text("fourth!")
    again = settled(tmp_path / "one")
    assert give(two, again) == []
    assert give(again, two) == ["x"]
    assert (tmp_path / "two/x").read_text() == "fourth!"


def test_of_old_deletions_a_floor_is_remembered_and_nobody_brings_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_DELETED", 10)
    one, away = Record(tmp_path / "one"), Record(tmp_path / "away")
    (tmp_path / "one/kept.pt").write_text("kept")
    (tmp_path / "one/old.pt").write_text("old")
    look(one)
    assert give(one, away) == ["kept.pt", "old.pt"]
    (tmp_path / "one/old.pt").unlink()
    for number in range(30):
        path = tmp_path / f"one/w-{number}.pt"
        path.write_text(str(number))
        look(one)
        path.unlink()
        look(one)
    one.save()
    assert sum(entry.deleted for entry in one.entries.values()) == 10
    assert "old.pt" not in one.entries
    again = settled(tmp_path / "one")
    assert give(away, again) == [], "it was deleted so long ago that only the floor says so"

    fresh = Record(tmp_path / "fresh")
    assert "kept.pt" in give(again, fresh), "what is there is given, however old it is"
    away.hear(again.clock)
    (tmp_path / "away/new.pt").write_text("new")
    look(away)
    assert give(away, again) == ["new.pt"], "who has heard how far others are writes newer versions"


def test_finding_what_is_whole_looks_at_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    real = manifest.prefix_of_data

    def counted(path: str) -> tuple[str, int] | None:
        nonlocal looks
        looks += 1
        return real(path)

    monkeypatch.setattr(manifest, "prefix_of_data", counted)
    names = [f"m-{n}.{kind}" for n in range(500) for kind in ("index", "data-00000-of-00001")]
    assert whole({name: Entry(name, 1) for name in names})
    assert looks <= 2 * len(names)


def test_the_last_whole_checkpoint_stays_until_a_newer_one_is_whole() -> None:
    own = {name: Entry(name, 1) for name in (DATA, OTHER_DATA, INDEX)}
    assert must_stay(own, {DATA, OTHER_DATA, INDEX}) == "m-1"
    assert must_stay(own | {"notes.txt": Entry("notes.txt", 1)}, {INDEX}) == "m-1", "that is no checkpoint"
    newer = {name.replace("m-1", "m-2"): Entry(name.replace("m-1", "m-2"), 2, mtime_ns=1) for name in own}
    assert must_stay(own | newer, {DATA, OTHER_DATA, INDEX}) is None
    assert must_stay(own | newer, {*own, *newer}) == "m-2"
    assert must_stay({"w.pt": Entry("w.pt", 1)}, {"w.pt"}) == "w.pt"


class Wire:
    """Calls between the hosts of this process, `a` and `b`, each with a folder of its own."""

    hosts: dict[str, Folders]
    folders: dict[str, Path]
    lost: set[str]
    """Files of which there is nothing to be read."""

    def __init__(self, address: str, *_: object) -> None:
        self.address = address

    def call(self, _: object, request: object, timeout_s: float) -> object:
        path, host = str(self.folders[self.address]), self.hosts[self.address]
        if isinstance(request, ListFilesRequest):
            return host.list_files(ListFilesRequest(path=path, tag=request.tag, clock=request.clock))
        assert isinstance(request, ReadFileRequest)
        if request.path in self.lost:
            raise NotFound("it went with its host")
        asked = ReadFileRequest(folder=path, path=request.path, sha256=request.sha256, offset=request.offset)
        return host.read_file(asked)

    def close(self) -> None:
        pass


@pytest.fixture
def two_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Wire]]:
    """Two hosts that keep a folder alike."""
    monkeypatch.setattr(replica, "Channel", Wire)
    monkeypatch.setattr(replica, "ROUND_S", 0.01)
    Wire.hosts = {name: Folders(None, lambda *_: None) for name in "ab"}  # type: ignore[arg-type]
    Wire.folders, Wire.lost = {name: tmp_path / name for name in "ab"}, set()
    for name, other in ("ab", "ba"):
        order = FolderOrder(str(tmp_path / name), "j", hold=True, peers=(FolderPeer(other, other),), all_peers=True)
        Wire.hosts[name].take([order], "c")
    yield Wire
    for host in Wire.hosts.values():
        host.close()


def save(folder: Path, step: int) -> None:
    for kind in ("data-00000-of-00001", "index"):
        (folder / f"m-{step}.{kind}").write_text(f"{kind} of {step}")


def delete(folder: Path, step: int) -> None:
    for kind in ("index", "data-00000-of-00001"):
        (folder / f"m-{step}.{kind}").unlink()


def whole_on(wire: type[Wire], host: str) -> tuple[str, ...]:
    (report,) = wire.hosts[host].reports()
    return report.whole


def test_a_host_gives_up_its_last_whole_checkpoint_only_for_a_newer_one(two_hosts: type[Wire]) -> None:
    a = two_hosts.folders["a"]
    save(a, 1)
    eventually(lambda: whole_on(two_hosts, "b") == ("m-1",))
    two_hosts.lost = {"m-2.data-00000-of-00001"}
    save(a, 2)
    delete(a, 1)
    for name in ("later.json", "last.json"):  # with the second b has done what it was told of before
        (a / name).write_text("{}")
        eventually((two_hosts.folders["b"] / name).exists)
    eventually(lambda: whole_on(two_hosts, "a") == ("m-2",))
    assert whole_on(two_hosts, "b") == ("m-1",), "of the second b has not all"
    two_hosts.lost = set()
    eventually(lambda: whole_on(two_hosts, "b") == ("m-2",))
    assert not list(two_hosts.folders["b"].glob("m-1*"))


def test_a_folder_that_vanished_under_its_keeper_is_filled_again_before_anything_starts(
    two_hosts: type[Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two_hosts.folders["a"], two_hosts.folders["b"]
    order = FolderOrder(str(b), "j", hold=True, peers=(FolderPeer("a", "a"),), gates=("ps/0",), all_peers=True)
    two_hosts.hosts["b"].take([order], "c")
    save(a, 1)
    eventually(lambda: whole_on(two_hosts, "b") == ("m-1",) and not two_hosts.hosts["b"].holds_back("ps/0"))
    two_hosts.lost = {"m-1.data-00000-of-00001"}  # so that it stays away for as long as is looked
    b.rename(b.with_name("gone"))  # at once: what is fetched into it meanwhile is in nobody's way
    assert two_hosts.hosts["b"].holds_back("ps/0"), "as soon as it has gone"
    eventually(lambda: whole_on(two_hosts, "b") == ())
    assert two_hosts.hosts["b"].holds_back("ps/0")
    two_hosts.lost = set()
    eventually(lambda: whole_on(two_hosts, "b") == ("m-1",) and not two_hosts.hosts["b"].holds_back("ps/0"))
    assert whole_on(two_hosts, "a") == ("m-1",)


def test_a_job_that_resumes_starts_when_all_that_it_asks_has_answered_it(two_hosts: type[Wire]) -> None:
    a, b = two_hosts.folders["a"], two_hosts.folders["b"]
    order = FolderOrder(str(b), "j-1", hold=True, gates=("ps/0",), all_peers=True)
    two_hosts.hosts["b"].take([order], "c")
    eventually(lambda: not two_hosts.hosts["b"].holds_back("ps/0"))
    two_hosts.lost = {"m-7.index"}
    save(a, 7)
    two_hosts.hosts["b"].take([replace(order, job_id="j-2", peers=(FolderPeer("a", "a"),))], "c")
    eventually((b / "m-7.data-00000-of-00001").exists)
    assert two_hosts.hosts["b"].holds_back("ps/0"), "j-1 was in step with nobody"
    two_hosts.lost = set()
    eventually(lambda: not two_hosts.hosts["b"].holds_back("ps/0"))
    assert (b / "m-7.index").exists()


def test_a_file_is_deleted_when_it_stays_away_and_the_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLE_S", 0.05)
    record = Record(tmp_path / "one")
    (tmp_path / "one/x").write_text("x")
    eventually(lambda: record.scan() and "x" in record.entries)
    (tmp_path / "one/x").unlink()
    record.scan()
    assert not record.entries["x"].deleted, "`rm -rf` of the folder begins so, too"
    shutil.rmtree(tmp_path / "one")
    record.scan()
    assert record.entries == {}
    assert record.times_taken_away == 1


def test_a_list_of_checkpoints_that_never_rests_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program saved every second, on a slow machine: other hosts had a list of checkpoints that were long gone."""
    monkeypatch.setattr(module, "SETTLE_S", 3600.0)
    record = Record(tmp_path / "one")
    for number in range(3):
        text = f'model_checkpoint_path: "m-{number}"\n'
        (tmp_path / "one/new").write_text(text)
        os.replace(tmp_path / "one/new", tmp_path / "one/checkpoint")
        assert record.scan()
        assert record.entries["checkpoint"].sha256 == hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "one/checkpoint").write_bytes(b"of torch, in the middle of being written")
    assert not record.scan()


def test_a_beat_of_the_agent_looks_at_no_file(two_hosts: type[Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    save(two_hosts.folders["a"], 1)
    eventually(lambda: whole_on(two_hosts, "b") == ("m-1",))
    looked: list[threading.Thread] = []
    real = Record.entries.fget
    assert real is not None
    looking = property(lambda self: (looked.append(threading.current_thread()), real(self))[1])
    monkeypatch.setattr(Record, "entries", looking)
    (report,) = two_hosts.hosts["b"].reports()
    assert threading.current_thread() not in looked
    assert (report.whole, report.files) == (("m-1",), 2)


# Which hosts ------------------------------------------------------------------------------------------------------

PLACES = {"ps/0": "a", "worker/0": "b", "worker/1": "c"}


def spec(**checkpoints: object) -> ClusterSpec:
    names = tuple(HostName(name) for name in "abcd")
    tasks = {"ps": TaskGroup(1), "worker": TaskGroup(2)}
    return ClusterSpec("t", tasks, host_groups={"all": HostGroup(names)}, checkpoints=Checkpoints(**checkpoints))  # type: ignore[arg-type]


def job(**request: object) -> JobRecord:
    placed = (Placed("worker/0", "worker/0"), Placed("worker/1", "worker/1"), Placed("ps/0", "ps/0", runs=False))
    clients = (ClientStatus("worker/0", "b", "running"),)
    return JobRecord(
        "j-1",
        JobRequest("x.py", **request),
        "",
        "",
        "~/j",
        0.0,
        state="running",
        placed=placed,
        clients=clients,  # type: ignore[arg-type]
    )


def reports(**folders: FolderReport) -> dict[str, Report]:
    return {
        name: Report(name, address=f"{name}:1", folders=(folders[name],) if name in folders else ()) for name in "abcd"
    }


@dataclass(frozen=True)
class Case:
    copies: int
    framework: str
    holders: tuple[str, ...]


@pytest.mark.parametrize(
    "case",
    [
        Case(1, "dtf", ("a", "b")),
        Case(2, "dtf", ("a", "b")),
        Case(3, "dtf", ("a", "b", "c")),
        Case(4, "dtf", ("a", "b", "c", "d")),
        Case(1, "torch", ("b", "c", "a")),
    ],
)
def test_who_restores_holds_checkpoints_and_others_up_to_the_copies_wanted(case: Case) -> None:
    found = holders_of(job(framework=case.framework), spec(copies=case.copies), PLACES, list("abcd"))
    assert found == case.holders


def test_orders_name_the_others_and_none_are_given_where_a_folder_is_shared() -> None:
    orders = folder_orders(spec(), [job()], PLACES, reports(), (), 1.0)
    assert {host: (order.hold, [p.host for p in order.peers], order.gates) for host, (order,) in orders.items()} == {
        "a": (True, ["b", "c"], ()),
        "b": (True, ["a", "c"], ()),
        "c": (False, ["a", "b"], ()),
    }
    assert folder_orders(spec(path="/mnt/c"), [job()], PLACES, reports(), (), 1.0) == {}


def test_hosts_that_are_lent_ask_the_controller_too_and_wait_until_they_know_where() -> None:
    kept = Kept((FolderReport("~/j", files=3),), {"a": "10.0.0.1:7"})
    orders = folder_orders(spec(), [replace(job(), starts={"worker/0": 1})], PLACES, {}, (), 1.0, kept)
    (own,) = orders.pop(CONTROLLER)
    assert own.hold and own.peers == ()
    assert orders["a"][0].peers == (FolderPeer(CONTROLLER, "10.0.0.1:7", "controller"),)
    assert orders["b"][0].peers == (FolderPeer(CONTROLLER, "", "controller"),)
    assert orders["a"][0].gates == ("ps/0",) and orders["b"][0].gates, "although no host knows of any checkpoint"
    orders = folder_orders(spec(), [job()], PLACES, reports(), (), 1.0, kept)
    assert [peer.host for peer in orders[CONTROLLER][0].peers] == ["a", "b", "c"]
    assert not any(peer.role == "controller" for peer in orders[CONTROLLER][0].peers)


def test_what_reads_checkpoints_waits_for_them_once_there_are_some() -> None:
    some = reports(b=FolderReport("~/j", files=3))
    moved = {**PLACES, "ps/0": "d"}
    orders = folder_orders(spec(), [job()], moved, some, {"a"}, 1.0)
    assert orders["d"][0].gates == ("ps/0",)
    assert orders["b"][0].gates == ("job:j-1:worker/0",)
    assert "a" not in orders
    assert all("a" not in [peer.host for peer in order.peers] for (order,) in orders.values())


def test_a_checkpoint_is_kept_when_it_is_whole_on_enough_hosts_and_the_chief_would_go_on_from_it() -> None:
    both, one = FolderReport("~/j", ("m-1", "m-2")), FolderReport("~/j", ("m-1",))
    assert acknowledged(job(), 2, reports(a=both, b=both), ()) == ("m-2", ("a", "b"))
    assert acknowledged(job(), 2, reports(a=both, b=one), ()) == ("m-1", ("a", "b"))
    assert acknowledged(job(), 2, reports(a=both, b=both), {"a"}) == ("", ())
    back = replace(both, whole=("m-2", "m-1"))
    assert acknowledged(job(), 2, reports(a=both, b=back), ())[0] == "m-1"


def test_a_checkpoint_that_was_lost_with_its_host_is_not_waited_for(
    two_hosts: type[Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_management, "COPY_S", 3600.0)
    a, b = two_hosts.folders["a"], two_hosts.folders["b"]
    save(a, 1)
    eventually(lambda: whole_on(two_hosts, "b") == ("m-1",))
    # The chief, on b, has heard from the ps that m-2 is written; then that host was lost with it.
    checkpoint_management.update_checkpoint_state(str(b), str(b / "m-2"), [str(b / "m-1"), str(b / "m-2")])
    assert checkpoint_management.latest_checkpoint(str(b)) == str(b / "m-1")


def test_a_checkpoint_that_is_on_its_way_is_waited_for(two_hosts: type[Wire], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_management, "COPY_S", 3600.0)
    a, b = two_hosts.folders["a"], two_hosts.folders["b"]
    save(a, 1)
    eventually(lambda: whole_on(two_hosts, "b") == ("m-1",))
    two_hosts.lost = {"m-2.index"}
    save(a, 2)
    checkpoint_management.update_checkpoint_state(str(b), str(b / "m-2"), [str(b / "m-1"), str(b / "m-2")])
    found: list[str | None] = []
    wait = in_thread(lambda: found.append(checkpoint_management.latest_checkpoint(str(b))))
    eventually(lambda: (b / "m-2.data-00000-of-00001").exists())
    assert not found
    two_hosts.lost = set()
    assert wait() is None
    assert found == [str(b / "m-2")]
