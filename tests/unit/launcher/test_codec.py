"""Messages survive the way, whatever is in them; nothing else becomes a message, and hostile bytes cost little."""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given, strategies as st

from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.messages import agent_calls as agent, codec, controller_calls as controller
from dtfctl.launcher.messages.agent import CertifyRequest, KeepRequest, RenewRequest, ShutdownRequest
from dtfctl.launcher.messages.commands import EndOfInput, ExecInput, Input, TerminalSize
from dtfctl.launcher.messages.controller import ApplyRequest, DesireRequest, ScaleRequest
from dtfctl.launcher.messages.files import FileHead, FilePart, StoreInput
from dtfctl.launcher.messages.orders import HostOrders, TaskOrder
from dtfctl.launcher.messages.reports import Report, TaskReport
from dtfctl.launcher.model import Progress, TaskStatus
from dtfctl.launcher.rpc.method import Method
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.values import default_of, names_of, value
from tests.support.mutation import mutated

METHODS = [item for room in (agent, controller) for item in vars(room).values() if isinstance(item, Method)]
MESSAGES = sorted({cls for method in METHODS for cls in (method.request, method.reply)}, key=lambda cls: cls.__name__)


def any_of(hint: Any, rng: random.Random) -> Any:
    """Make any value of a type, by its hint; often one at the edge of what there is."""
    simple: dict[Any, Callable[[], Any]] = {
        int: lambda: rng.choice([0, 1, -1, codec.LOWEST, codec.HIGHEST, rng.randrange(-(2**40), 2**40)]),
        float: lambda: rng.choice([0.0, -0.0, 1e-300, -1.7e308, rng.uniform(-1e9, 1e9)]),
        bool: lambda: rng.random() < 0.5,
        str: lambda: rng.choice(["", "a", "é\0\U0001f600", "x" * 300, str(rng.random())]),
        bytes: lambda: rng.choice([b"", b"\xff", rng.randbytes(300)]),
        Path: lambda: Path(rng.choice(["a", "/b/c"])),
        types.NoneType: lambda: None,
    }
    if hint in simple:
        return simple[hint]()
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any_of(rng.choice(args), rng)
    if origin is Literal:
        return rng.choice(args)
    if origin is tuple:
        items = [args[0]] * rng.randrange(3) if args[1:] == (...,) else args
        return tuple(any_of(item, rng) for item in items)
    if origin in (dict, Mapping):
        return {any_of(args[0], rng): any_of(args[1], rng) for _ in range(rng.randrange(3))}
    known = codec.hints(hint)
    said = [name for name in names_of(hint) or () if default_of(hint, name, None) is None or rng.random() < 0.7]
    return hint(**{name: any_of(known[name], rng) for name in said})


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_survives_the_way(cls: type[Any]) -> None:
    rng = random.Random(7)
    for _ in range(40):
        message = any_of(cls, rng)
        packed = codec.pack(message)
        assert codec.unpack(cls, packed, "request") == message
        assert codec.unpack(cls, packed, "reply") == message


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_bytes_with_faults_are_refused_or_are_a_message(cls: type[Any]) -> None:
    rng = random.Random(8)
    for _ in range(300):
        source: codec.Source = rng.choice(["request", "reply"])
        try:
            found = codec.unpack(cls, mutated(rng, codec.pack(any_of(cls, rng))), source)
        except ValueError as error:
            assert len(str(error)) < 1000
        else:
            assert type(found) is cls
            assert codec.unpack(cls, codec.pack(found), "request") == found, "what was read can be said again"


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    for cls in (Report, HostOrders, ExecInput):
        try:
            assert type(codec.unpack(cls, data, "reply")) is cls
        except ValueError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xdd\x00\x00\xff\xff" * 1000,
        b"\x91" * 100_000,
        b"\x81\xa5tasks" + b"\x91" * 900 + b"\xc0" + b"\x00" * 0,
    ],
)
def test_lengths_and_depths_that_are_only_said_are_refused_before_there_is_memory_for_them(data: bytes) -> None:
    import tracemalloc

    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            codec.unpack(Report, data, "request")
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def test_what_is_default_is_not_said_and_says_the_same() -> None:
    assert codec.pack(TaskOrder("ps", 0, restart_request=0)) == codec.pack(TaskOrder("ps", 0))
    assert len(codec.pack(HostOrders())) == 1
    assert codec.unpack(HostOrders, b"\x80", "reply") == HostOrders()


@value
class Newer:
    """A request as a later version has it."""

    epoch: int
    revision: int = 0
    gently: bool = False


def test_a_request_that_asks_for_something_new_is_refused_and_one_that_does_not_is_heard() -> None:
    assert codec.unpack(RenewRequest, codec.pack(Newer(1, 2)), "request") == RenewRequest(1, 2)
    with pytest.raises(ValueError, match="RenewRequest has no field 'gently'"):
        codec.unpack(RenewRequest, codec.pack(Newer(1, 2, gently=True)), "request")
    assert codec.unpack(RenewRequest, codec.pack(Newer(1, 2, gently=True)), "reply") == RenewRequest(1, 2)


def test_a_spec_with_a_new_key_is_not_taken_over_without_it() -> None:
    spec = codec.to_plain(ClusterSpec("c", {}))
    request = codec.msgpack.packb({"spec": spec | {"gravity": 1}})
    with pytest.raises(ValueError, match=r"ApplyRequest\.spec: ClusterSpec has no field 'gravity'"):
        codec.unpack(ApplyRequest, request, "request")


@pytest.mark.parametrize(
    ("cls", "fields", "problem"),
    [
        (RenewRequest, {"epoch": 2**63}, r"epoch: 9223372036854775808 is longer than 64 bits"),
        (RenewRequest, {"epoch": True}, "epoch: expected int, got True"),
        (RenewRequest, {"epoch": 1.0}, r"epoch: expected int, got 1\.0"),
        (RenewRequest, {"revision": 1}, "missing 1 required positional argument: 'epoch'"),
        (ShutdownRequest, {"grace_s": float("inf"), "epoch": 1}, "grace_s: inf is not finite"),
        (ShutdownRequest, {"grace_s": float("nan"), "epoch": 1}, "grace_s: nan is not finite"),
        (DesireRequest, {"selector": "all", "verb": "remove"}, "verb: 'remove' is not one of"),
        (CertifyRequest, {"authority": "text"}, "authority: expected bytes, got 'text'"),
        (KeepRequest, {"epoch": 1, "revision": 1, "entries": {"a": 1}}, "entries: expected str, got 1"),
        (ScaleRequest, {"counts": [1]}, "counts: expected dict, got a list"),
        (
            Report,
            {"host": "h", "tasks": [{"status": {"job": "ps"}}]},
            r"TaskReport\.status: TaskStatus: .*missing 2 required",
        ),
        (Report, {"host": "h", "tasks": [3]}, "expected the fields of TaskReport, got 3"),
        (FilePart, {"what": {"FileHead": {"path": "a", "kind": "device"}}}, "kind: 'device' is not one of"),
        (ExecInput, {"what": {"ClusterSpec": {}}}, "'ClusterSpec' is not one of ExecStart"),
        (ExecInput, {"what": {"Input": {}, "EndOfInput": {}}}, "expected one of ExecStart"),
        (ExecInput, {"what": None}, "expected one of ExecStart"),
        (ExecInput, 3, "expected the fields of ExecInput"),
    ],
)
def test_what_is_not_of_its_type_is_refused_by_name(cls: type[Any], fields: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        codec.unpack(cls, codec.msgpack.packb(fields), "request")


def test_a_field_of_several_classes_says_which_one_it_has() -> None:
    for item in (ExecInput(EndOfInput()), ExecInput(TerminalSize(2, 3)), ExecInput(Input(b""))):
        assert codec.unpack(ExecInput, codec.pack(item), "request") == item
    nested = StoreInput(FilePart(FileHead("a", "link", link="b")))
    assert codec.unpack(StoreInput, codec.pack(nested), "request") == nested


def test_what_cannot_cross_is_refused_where_it_is_said() -> None:
    with pytest.raises(ValueError):
        codec.pack(RenewRequest(2**70))
    with pytest.raises(ValueError):
        codec.pack(Report("\ud800"))
    with pytest.raises(TypeError, match="a set cannot be part of a message"):
        codec.pack(TaskReport(TaskStatus("ps", 0, "running", last_lines={1})))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be part of a value"):
        codec.decode(frozenset, "[]")


def test_files_keep_what_they_may_hold() -> None:
    """They are this user's own, and may be of another version."""
    assert codec.decode(RestartPolicy, '{"within_s": Infinity, "gone": 1}').within_s == float("inf")
    progress = Progress(3, None, {"loss": 1})
    assert codec.decode(Progress, codec.encode(progress)) == progress
    with pytest.raises(ValueError, match="longer than 64 bits"):
        codec.decode(Progress, '{"step": 1' + "0" * 400 + "}")
