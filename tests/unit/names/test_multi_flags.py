"""Flags that are given several times."""

from __future__ import annotations

import pytest

from dtfctl.runtime.platform import flags


def made() -> flags.FlagValues:
    found = flags.FlagValues()
    flags.DEFINE_multi_string("s", ["x"], "", found)
    flags.DEFINE_multi_integer("n", 3, "", flag_values=found)
    flags.DEFINE_multi_float("f", None, "", flag_values=found)
    flags.DEFINE_multi_enum("e", "a", ["a", "b"], "", found)
    flags.DEFINE_spaceseplist("words", "p q", "", flag_values=found)
    return found


def test_defaults_are_lists() -> None:
    found = made()
    found(["program"])
    assert found.flag_values_dict() == {"s": ["x"], "n": [3], "f": None, "e": ["a"], "words": ["p", "q"]}


def test_what_is_given_replaces_the_default() -> None:
    found = made()
    line = ["program", "--s=a", "--n=1", "--n", "2", "--s=b", "--f=0.5", "--e=b", "--words=r  s t", "rest"]
    assert found(line) == ["program", "rest"]
    assert (found.s, found.n, found.f, found.e, found.words) == (["a", "b"], [1, 2], [0.5], ["b"], ["r", "s", "t"])
    found(["program", "--n=9"])
    assert found.n == [9]


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(SystemExit):
        made()(["program", "--e=c"])
    with pytest.raises(SystemExit):
        made()(["program", "--n=x"])
