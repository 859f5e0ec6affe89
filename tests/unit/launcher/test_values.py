"""Values cross process boundaries unchanged; selectors, placement and files do what they say."""

from __future__ import annotations

import errno
import json
import socket
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dtfctl.health import beats
from dtfctl.health.restart import Ending, RestartPolicy
from dtfctl.launcher.agent.tell.peers import PeerBoard
from dtfctl.launcher.agent.tell.task_socket import TaskSocket
from dtfctl.launcher.agent.units import ports, progress
from dtfctl.launcher.agent.units.lifecycle import Order, Record, advance, ended, ready
from dtfctl.launcher.agent.units.state_file import Saved
from dtfctl.launcher.controller.decisions import placement, reconcile
from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.errors import (
    BY_NAME,
    LauncherError,
    NoSpace,
    NoSuchTask,
    PortTaken,
    SpecError,
    UsageError,
)
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.orders import ClientOrder, HostOrders, Peer, TaskOrder, Way
from dtfctl.launcher.messages.reports import ClientReport, Report, TaskReport
from dtfctl.launcher.model import LinkStatus, Progress, TaskStatus
from dtfctl.launcher.operator import local_controller
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.selectors import select
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, TaskGroup
from dtfctl.launcher.system import files


def test_orders_and_reports_survive_the_way() -> None:
    orders = HostOrders(
        cluster="c",
        epoch=3,
        revision=4,
        tasks=(TaskOrder("ps", 0, env={"A": "b"}),),
        clients=(ClientOrder("j-1", "worker", 1, command=("python", "x"), restart=RestartPolicy(limited=True)),),
        peers=(Peer("ps", 1, "h:1", 2, True),),
        expected=("ps/0", "ps/1"),
    )
    assert codec.unpack(HostOrders, codec.pack(orders), "request") == orders
    report = Report(
        "h",
        tasks=(TaskReport(TaskStatus("ps", 0, "running", pid=3, last_lines=("a", "b"))),),
        clients=(ClientReport("j", "worker", 0, "running", progress=Progress(3, None, {"loss": 0.5}, 1.0)),),
    )
    assert codec.unpack(Report, codec.pack(report), "reply") == report


def test_absent_is_not_zero() -> None:
    task = TaskStatus("ps", 0, "pending")
    assert codec.unpack(TaskStatus, codec.pack(task), "reply").pid is None
    assert codec.unpack(TaskStatus, codec.pack(replace(task, exit_code=0)), "reply").exit_code == 0


def test_state_files_survive_the_way() -> None:
    saved = Saved("boot", "/run", HostOrders(cluster="c"), {"ps/0": Record(gpus=(1, 2), retry_at=3.0)})
    assert codec.decode(Saved, codec.encode(saved)) == saved


def test_a_state_file_of_an_older_version_is_read_and_nonsense_is_refused() -> None:
    assert codec.decode(Record, '{"state": "running", "from_the_future": 1}') == Record("running")
    with pytest.raises(ValueError, match="not one of"):
        codec.decode(Record, '{"state": "flying"}')
    with pytest.raises(ValueError, match="expected int"):
        codec.decode(Record, '{"port": "80"}')


def test_every_error_crosses_by_its_own_name() -> None:
    classes = [LauncherError]
    for cls in classes:
        classes += [sub for sub in cls.__subclasses__() if sub.__module__ == "dtfctl.launcher.errors"]
    assert {cls.__name__ for cls in classes} == set(BY_NAME)
    assert {cls.exit_code for cls in classes} <= {1, 2, 3, 4, 5, 6, 7, 8, 9, 125, 255}


TASKS = [
    TaskStatus("ps", 0, "running", "healthy", "a"),
    TaskStatus("worker", 0, "crashed", "unknown", "a"),
    TaskStatus("worker", 1, "running", "down", "b"),
    TaskStatus("worker", 2, "running", "suspect", "b"),
]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("all", ["ps/0", "worker/0", "worker/1", "worker/2"]),
        ("worker", ["worker/0", "worker/1", "worker/2"]),
        ("worker/1", ["worker/1"]),
        ("worker/0-1", ["worker/0", "worker/1"]),
        ("worker/2,ps", ["ps/0", "worker/2"]),
        ("host:b", ["worker/1", "worker/2"]),
        ("failed", ["worker/0", "worker/1"]),
    ],
)
def test_selectors(selector: str, expected: list[str]) -> None:
    assert [task.name for task in select(selector, TASKS)] == expected


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        ("worker/9", NoSuchTask),
        ("chief", NoSuchTask),
        ("host:c", NoSuchTask),
        ("worker/a", UsageError),
        ("", UsageError),
    ],
)
def test_selectors_that_mean_nothing(selector: str, error: type[LauncherError]) -> None:
    with pytest.raises(error):
        select(selector, TASKS)


def spec_on(hosts: dict[str, HostGroup], **tasks: TaskGroup) -> ClusterSpec:
    return ClusterSpec("c", tasks, host_groups=hosts)


def group(*names: str, **changes: Any) -> HostGroup:
    return HostGroup(tuple(HostName(name) for name in names), **changes)


def test_tasks_are_spread_over_hosts_or_packed_and_spares_stay_free() -> None:
    hosts = {"main": group("a", "b", slots=2), "extra": group("z", spare=True)}
    spread = placement.place(spec_on(hosts, worker=TaskGroup(3)))
    assert spread == {"worker/0": "a", "worker/1": "b", "worker/2": "a"}
    packed = placement.place(spec_on(hosts, worker=TaskGroup(3, spread="pack")))
    assert packed == {"worker/0": "a", "worker/1": "a", "worker/2": "b"}


def test_groups_can_choose_their_hosts() -> None:
    hosts = {"cpu": group("a"), "gpu": group("b")}
    placed = placement.place(spec_on(hosts, ps=TaskGroup(1, hosts=("cpu",)), worker=TaskGroup(1, hosts=("gpu",))))
    assert placed == {"ps/0": "a", "worker/0": "b"}


def test_too_few_slots_are_an_error_with_the_numbers() -> None:
    with pytest.raises(SpecError, match=r"no slot is left for worker/2: 1 hosts with 2 slots"):
        placement.place(spec_on({"main": group("a", slots=2)}, worker=TaskGroup(3)))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 20))
def test_no_host_gets_more_than_its_slots(hosts: int, slots: int, count: int) -> None:
    spec = spec_on({"main": group(*[f"h{n}" for n in range(hosts)], slots=slots)}, worker=TaskGroup(count))
    if count > hosts * slots:
        with pytest.raises(SpecError):
            placement.place(spec)
        return
    placed = list(placement.place(spec).values())
    assert len(placed) == count
    assert all(placed.count(host) <= slots for host in placed)


def test_orders_tell_a_host_about_the_tasks_of_the_others() -> None:
    rows = (TaskRow("ps/0", "a"), TaskRow("worker/0", "b"))
    desired = reconcile.Desired("c", spec_on({"m": group("a", "b")}, ps=TaskGroup(1), worker=TaskGroup(1)), rows)
    report = Report("a", tasks=(TaskReport(TaskStatus("ps", 0, "running", address="a:1", incarnation=4)),))
    orders = reconcile.reconcile(desired, reconcile.Observed({"a": report}))
    assert [peer.name for peer in orders["b"].peers] == ["ps/0"]
    assert (orders["b"].peers[0].address, orders["b"].peers[0].up) == ("a:1", True)
    (other,) = orders["a"].peers
    assert (other.name, other.address, other.up) == ("worker/0", "b:0", False), "nobody waits for a host that is late"
    assert orders["a"].expected == orders["b"].expected == ("ps/0", "worker/0")
    again = reconcile.reconcile(desired, reconcile.Observed({"a": report}))
    assert again == orders, "the same desired and observed state gives the same orders"
    started = replace(desired, tasks=(rows[0], replace(rows[1], incarnation=1)))
    unheard = reconcile.reconcile(started, reconcile.Observed({"a": report}))
    assert unheard["a"].peers == (), "a new controller does not know where it is"


def test_a_place_that_is_known_is_not_taken_back_by_a_controller_that_has_not_heard_of_it(tmp_path: Path) -> None:
    line = TaskSocket(tmp_path)
    try:
        board = PeerBoard(line, {}, "b")
        running = Peer("ps", 0, "a:1", 3, up=True)
        board.update([running], ["ps/0"])
        board.update([Peer("ps", 0, "a:0", 0, up=False, reason="it has not been started yet")], ["ps/0"])
        assert board.addresses() == {"ps/0": "a:1"}
        board.update([Peer("ps", 0, "c:0", 3, up=False, reason="its host a is lost")], ["ps/0"])
        assert board.addresses() == {"ps/0": "c:0"}
    finally:
        line.close()


def test_tasks_are_told_where_they_stand(tmp_path: Path) -> None:
    told: list[tuple[tuple[str, ...], object]] = []
    line: Any = SimpleNamespace(tell=lambda names, note: told.append((tuple(names), beats.unpack(note))))
    record = SimpleNamespace(port=1, incarnation=1, state="running", reason="")
    here: Any = SimpleNamespace(name="ps/0", is_wanted=True, record=record)
    board = PeerBoard(line, {"ps/0": here}, "b")
    ways = (Way("worker/0", 1e8),)
    place = beats.Place("r1", (("worker/0", 1e8),))
    board.stand("r1", ways)
    board.stand("r1", ways)
    assert told == [(("ps/0",), place)], "once, as long as it stays so"
    told.clear()
    board.came_up(here)
    assert (("ps/0",), place) in told


def test_orders_say_what_was_measured_from_a_host() -> None:
    spec = ClusterSpec(
        "c",
        {"worker": TaskGroup(3)},
        host_groups={"all": HostGroup(tuple(map(HostName, "abc")), slots=1, rack="r1")},
    )
    rows = tuple(TaskRow(name, host) for name, host in placement.place(spec).items())
    links = (LinkStatus("a", "b", 1e-4, 123_456_789.0), LinkStatus("a", "c"), LinkStatus("b", "a", 1e-4, 5e7))
    orders = reconcile.reconcile(reconcile.Desired("c", spec, rows, links=links), reconcile.Observed())
    assert [orders[host].ways for host in "abc"] == [(Way("worker/1", 123e6),), (Way("worker/0", 5e7),), ()]
    assert {orders[host].rack for host in "abc"} == {"r1"}


def test_ports_prefer_the_former_then_the_range() -> None:
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {taken} is taken by pid"):
            ports.choose(taken, taken, ())
        assert ports.choose(0, 0, (), before=taken) != taken
    assert ports.choose(0, 0, (), before=taken) == taken
    assert ports.choose(0, 0, {taken}, before=taken) != taken
    with pytest.raises(PortTaken, match="another task of this cluster"):
        ports.choose(taken, taken, {taken})


def test_a_port_that_is_bound_later_is_none_an_outgoing_connection_may_get_meanwhile() -> None:
    lowest, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert all(1024 <= ports.choose(0, 0, ()) < lowest for _ in range(20))


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    files.write_whole(path, b"old")

    def full(fd: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(NoSpace, match="state"):
        files.write_whole(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["state"]


def test_progress_lines_are_followed_and_bad_ones_skipped(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    follower = progress.ProgressFile(path)
    assert not follower.poll()
    path.write_text('{"step": 1, "total": 9}\nnot json\n{"step": 2, "metrics": {"loss": 0.5, "bad": NaN}}\n{"step": 3')
    assert follower.poll()
    assert follower.latest == Progress(2, None, {"loss": 0.5}, 0.0)
    assert follower.bad_lines == 1
    with path.open("a") as file:
        file.write("}\n")
    assert follower.poll()
    assert follower.latest is not None
    assert follower.latest.step == 3


@pytest.mark.parametrize(
    "line",
    [
        b'{"step": Infinity}',
        b'{"step": 1e30}',
        b'{"step": -1}',
        b'{"step": 1, "total": 9223372036854775808}',
        b'{"step": 1, "metrics": [1]}',
        b'{"step": 1, "metrics": {"a": "b"}}',
        b'{"step": 1, "time": Infinity}',
        b'{"step": 1, "metrics": {"\\ud800": 1}}',
        b"[" * 100_000,
        b"3",
        b"null",
    ],
)
def test_progress_that_no_message_could_carry_is_refused(line: bytes) -> None:
    assert progress.parse(line) is None


def test_a_note_that_no_message_could_carry_is_refused() -> None:
    assert progress.parse_note(b'{"note": "it \\ud800 begins"}') is None
    assert progress.parse_note('{"note": "début"}'.encode()) == "début"


@given(st.binary(max_size=100))
def test_no_progress_line_can_break_the_agent(line: bytes) -> None:
    found = progress.parse(line)
    assert found is None or is_dataclass(found)


def test_down_keeps_logs_and_checkpoints_only(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path / "c")
    kept = [paths.logs / "a.log", paths.job("j-1") / "checkpoint" / "model.index"]
    gone = [paths.job("j-1") / "code" / "x.py", paths.job("j-2") / "code" / "x.py", paths.certificates / "ca.key"]
    gone += [paths.database, paths.info, paths.host("localhost") / "state.json"]
    for path in (*kept, *gone):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({}))
    local_controller.forget(paths)
    assert sorted(path for path in paths.folder.rglob("*") if path.is_file()) == sorted(kept)


def test_a_start_after_a_fault_says_the_fault_though_the_process_was_held_back_meanwhile() -> None:
    run, hold = Order(run=True), Order(run=False)
    record, _ = advance(Record(), run, 0.0)
    record = ended(ready(record), hold, RestartPolicy(), Ending(exit_code=9), now=1.0, rand=0.5)
    record, _ = advance(record, hold, 2.0)
    record, action = advance(record, run, 3.0)
    assert (action, record.state, record.reason) == ("start", "starting", "exit code 9")
    record, _ = advance(ready(record), hold, 4.0)
    record = ended(record, hold, RestartPolicy(), Ending(exit_code=None, signal=15), now=5.0, rand=0.5)
    assert record.reason == "stopped on request"
    record, _ = advance(record, run, 6.0)
    assert record.reason == "", "nothing was wrong: nothing is to be said"
