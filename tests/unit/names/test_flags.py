"""What programs do with `FLAGS` besides reading a flag; said by absl, which TensorFlow 1.15 has."""

from __future__ import annotations

import sys
from typing import ClassVar

import pytest

from dtfctl.runtime.platform import app, flags


def made(*line: str) -> flags.FlagValues:
    found = flags.FlagValues()
    flags.DEFINE_integer("steps", 3, "how many", flag_values=found)
    flags.DEFINE_string("name", None, "", found)
    flags.DEFINE_boolean("fast", False, "", found)
    flags.DEFINE_multi_string("tag", ["x"], "", found)
    flags.DEFINE_list("sizes", "1,2", "", found)
    found(["program", *line])
    return found


def test_a_flag_is_found_by_its_name() -> None:
    found = made("--steps=8")
    step = found["steps"]
    assert (step.name, step.value, step.default, step.present, step.help) == ("steps", 8, 3, 1, "how many")
    assert found["name"].present == 0
    step.value = 11
    assert found.steps == 11 == getattr(found, "__flags")["steps"].value == found._flags()["steps"].value
    with pytest.raises(KeyError):
        found["nope"]


def test_flags_are_gone_through() -> None:
    found = made("--nofast")
    assert list(found) == ["steps", "name", "fast", "tag", "sizes"]
    assert len(found) == 5
    assert "steps" in dir(found)
    assert found.flag_values_dict() == {k: found[k].value for k in found}
    assert found.flags_into_string() == "--steps=3\n--nofast\n--tag=x\n--sizes=1,2\n"


def test_a_default_is_changed_where_the_command_line_does_not_give_the_flag() -> None:
    found = made("--steps=8")
    found.set_default("steps", 9)
    found.set_default("name", "q")
    assert (found.steps, found.name) == (8, "q")
    assert found.get_flag_value("name", "other") == "q"
    assert made().get_flag_value("name", "other") == "other"
    with pytest.raises(AttributeError):
        found.get_flag_value("nope", 1)


def test_flags_are_forgotten_and_defined_anew() -> None:
    found = made("--steps=8")
    del found.steps
    assert "steps" not in found
    with pytest.raises(AttributeError):
        found.steps  # noqa: B018
    flags.DEFINE_integer("steps", 4, "", flag_values=found)
    found(["program"])
    assert found.steps == 4
    found.remove_flag_values(["steps", "name"])
    assert list(found) == ["fast", "tag", "sizes"]


def test_what_was_set_stays_when_the_line_is_parsed_again() -> None:
    found = made("--steps=8")
    found.name = "set"
    flags.DEFINE_integer("later", 1, "", flag_values=found)
    found(["program", "--later=2"])
    assert (found.steps, found.name, found.later) == (8, "set", 2)


def test_a_required_flag_without_a_value_is_found() -> None:
    found = made()
    flags.mark_flag_as_required("name", found)
    with pytest.raises(ValueError, match="--name must have a value"):
        found.validate_all_flags()


def test_bounds_and_validators_are_asked_where_a_flag_is_set() -> None:
    """absl sets the value, and then refuses it."""
    found = flags.FlagValues()
    flags.DEFINE_integer("n", 3, "", lower_bound=0, flag_values=found)
    flags.DEFINE_string("name", "a", "", found)
    flags.DEFINE_string("other", None, "", found)

    @flags.validator("name", "too long", found)
    def short(value: str) -> bool:
        if value == "?":
            raise flags.ValidationError("no name")
        return len(value) < 3

    flags.mark_flags_as_mutual_exclusive(["name", "other"], True, found)
    assert found(["program", "rest"]) == ["program", "rest"]
    found.n = 7
    with pytest.raises(flags.IllegalFlagValueError, match="n=-1"):
        found.n = -1
    found.n = 7
    with pytest.raises(flags.IllegalFlagValueError, match="too long"):
        found.name = "long"
    with pytest.raises(flags.IllegalFlagValueError, match="no name"):
        found.name = "?"
    assert short("ab")
    found.name = "b"
    with pytest.raises(flags.IllegalFlagValueError, match="Exactly one of"):
        found.other = "c"
    with pytest.raises(SystemExit):
        found(["program", "--name=longer"])


def test_flags_that_were_declared_with_absl_are_parsed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `absl.flags` does is a stand-in's here: dtfctl does not need absl."""

    class Absl:
        Error = KeyError
        given: ClassVar[list[list[str]]] = []

        @classmethod
        def FLAGS(cls, argv: list[str]) -> list[str]:
            cls.given.append(argv)
            if "--bad" in argv:
                raise cls.Error("bad")
            return [a for a in argv if a != "--theirs=1"]

    monkeypatch.setitem(sys.modules, "absl.flags", Absl)
    with pytest.raises(SystemExit) as ended:
        app.run(lambda argv: argv, ["program", "rest", "--theirs=1"])
    assert ended.value.code == ["program", "rest"]
    assert Absl.given == [["program", "rest", "--theirs=1"]]
    with pytest.raises(SystemExit, match="Flags parsing error: 'bad'"):
        app.run(lambda argv: argv, ["program", "--bad"])
