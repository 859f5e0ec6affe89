"""`@value` makes what `dataclass(frozen=True, slots=True)` makes; only its methods are made later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, replace
from typing import Any

import pytest

from dtfctl import values
from dtfctl.values import value


def _make(decorate: Callable[[type], Any], field: Callable[..., Any], called: str) -> Any:
    class Parts:
        name: str
        sizes: list[int] = field(default_factory=list)
        ratio: float = 0.5
        hidden: int = field(default=7, repr=False, compare=False)

    body = {key: item for key, item in vars(Parts).items() if key not in ("__dict__", "__weakref__", "__qualname__")}
    made = decorate(type(called, (), body))
    globals()[called] = made  # where pickle looks for it
    return made


Plain = _make(dataclass(frozen=True, slots=True), dataclasses.field, "Plain")
Ours = _make(value, values.field, "Ours")


def test_a_field_of_dataclasses_is_refused() -> None:
    with pytest.raises(TypeError, match=r"dtfctl\.values\.field"):
        _make(value, dataclasses.field, "Mixed")


@pytest.mark.parametrize("arguments", [(("a",), {}), (("a", [1]), {"ratio": 2.0}), ((), {"name": "b", "hidden": 1})])
def test_made_and_shown_as_a_dataclass(arguments: tuple[Any, Any]) -> None:
    args, named = arguments
    plain, ours = Plain(*args, **named), Ours(*args, **named)
    assert repr(ours) == repr(plain).replace("Plain", "Ours")
    assert asdict(ours) == asdict(plain)
    assert asdict(replace(ours, name="z")) == asdict(replace(plain, name="z"))
    assert [item.name for item in fields(Ours)] == [item.name for item in fields(Plain)]


@pytest.mark.parametrize("arguments", [((), {}), (("a", [], 0.5, 7, 8), {}), (("a",), {"other": 1})])
def test_wrong_arguments_are_refused(arguments: tuple[Any, Any]) -> None:
    args, named = arguments
    for cls in (Plain, Ours):
        with pytest.raises(TypeError):
            cls(*args, **named)


def test_equal_by_what_counts() -> None:
    assert Ours("a", hidden=1) == Ours("a", hidden=2)
    assert Ours("a") != Ours("b")
    assert Ours("a") != Plain("a")
    assert hash(Ours("a", ())) == hash(Ours("a", (), hidden=3))
    assert Ours("a").sizes is not Ours("a").sizes


def test_nothing_can_be_set() -> None:
    item = Ours("a")
    for name in ("name", "unknown"):
        with pytest.raises(FrozenInstanceError):
            setattr(item, name, 1)
    with pytest.raises(FrozenInstanceError):
        del item.name
    assert not hasattr(item, "__dict__")


def test_copied_and_pickled() -> None:
    item = Ours("a", [1, 2], hidden=3)
    for twin in (copy.copy(item), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
        assert twin == item and twin.hidden == 3 and twin is not item


def test_a_method_of_the_class_itself_stays() -> None:
    @value
    class Quiet:
        secret: str

        def __repr__(self) -> str:
            return "Quiet(...)"

    assert repr(Quiet("x")) == "Quiet(...)"
