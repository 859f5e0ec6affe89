"""The assertions of Abseil's TestCase, which `tf.test.TestCase` has too: what passes and what does not."""

from __future__ import annotations

import dataclasses
import unittest.mock
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


class _Case(tf.test.TestCase):
    __test__ = False

    def runTest(self) -> None:
        """Never run: the assertions are called."""


@dataclasses.dataclass
class _Point:
    x: int
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass
class _Odd:
    x: int

    def __eq__(self, other: object) -> bool:
        return False


# By name: arguments that pass, and arguments that do not; Abseil's own agree.
CASES: list[tuple[str, list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
    ("assertStartsWith", [("abc", "ab")], [("abc", "b")]),
    ("assertNotStartsWith", [("abc", "b")], [("abc", "a"), ("abc", "")]),
    ("assertEndsWith", [("abc", "bc")], [("abc", "b")]),
    ("assertNotEndsWith", [("abc", "b")], [("abc", "c")]),
    ("assertLen", [([1, 2], 2)], [("abc", 2)]),
    ("assertEmpty", [({},)], [([0],)]),
    ("assertNotEmpty", [([0],)], [("",)]),
    ("assertBetween", [(1, 1, 2), (2, 1, 2)], [(0, 1, 2), (3, 1, 2)]),
    (
        "assertSequenceStartsWith",
        [([1, 2], [1, 2, 3]), (1, [1, 2]), ([], []), ("a", "abc"), ((1,), [1]), ([None], [None, 1])],
        [([2], [1, 2]), ([], [1]), ([1, 2, 3], [1, 2]), (1, {1: 2}), ([1], {1}), ([1], 5)],
    ),
    ("assertSequenceAlmostEqual", [([1.0], [1.00000001])], [([1.0], [1.1]), ([1.0], [1.0, 2.0])]),
    ("assertContainsSubset", [([1, 1], [1, 2]), ([], [])], [([1, 3], [1, 2])]),
    ("assertNoCommonElements", [([1], [2]), ("ab", "cd")], [([1, 2], [2, 3])]),
    ("assertItemsEqual", [([1, 2, 1], [1, 1, 2])], [([1, 2], [1, 1, 2])]),
    (
        "assertSameElements",
        [([1, 1, 0], [0, 1]), ([[1]], [[1], [1]])],
        [([1], [1, 2]), ([1, 2], [1]), ("ab", ["a", "b"])],
    ),
    (
        "assertContainsInOrder",
        [(["fox", "dog"], "a fox, a dog"), ("dog", "dog"), (["a", "a"], "a")],
        [(["b", "a"], "ab")],
    ),
    (
        "assertContainsSubsequence",
        [([0, 1, 9, 2], [1, 2]), ("abc", "ac"), ([1], [])],
        [([2, 1], [1, 2]), ([1], [1, 1])],
    ),
    (
        "assertContainsExactSubsequence",
        [([0, 1, 2], [1, 2]), ([], []), ([1], [])],
        [([1, 9, 2], [1, 2]), ([1], [1, 2])],
    ),
    ("assertTotallyOrdered", [([1], [2, 2.0], [3]), ([],)], [([2], [1]), ([1, 2],), ([1], [1])]),
    (
        "assertRegexMatch",
        [("a\nb", ["x", "^b$"]), (b"abc", ["b"]), ("abc", [b"c"])],
        [("abc", ["x"]), ("abc", "abc"), ("abc", [])],
    ),
    ("assertIsSubclass", [(bool, int), (int, (str, int))], [(int, bool), (3, int), (int, (str, bytes))]),
    ("assertNotIsSubclass", [(int, bool), (int, (str,))], [(bool, int), (3, int), (int, (str, int))]),
    (
        "assertDictEqual",
        [({"a": 1}, {"a": 1}), ({"a": np.ones(2)}, {"a": [1.0, 1.0]}), ({"a": 1.0}, {"a": 1.00000001})],
        [
            ({"a": 1}, {"a": 2}),
            ({"a": 1}, {"b": 1}),
            ({"a": 1}, {"a": 1, "b": 2}),
            ([1], {1: 1}),
            ({"a": 1.0}, {"a": 1.1}),
        ],
    ),
    (
        "assertDictContainsSubset",
        [({"a": 1}, {"a": 1, "b": 2}), ({}, {})],
        [({"a": 2}, {"a": 1}), ({"c": 1}, {"a": 1})],
    ),
    (
        "assertDictAlmostEqual",
        [({"a": 1.0, "b": "x"}, {"a": 1.00000001, "b": "x"}), ({"a": 1.0}, {"a": 1.2}, None, None, 0.3)],
        [({"a": 1.0}, {"a": 1.1}), ({"a": "x"}, {"a": "y"}), ({"a": 1}, {"b": 1}), ({"a": 1.0}, {"a": 1.2}, 1)],
    ),
    (
        "assertMappingEqual",
        [({"a": 1}, {"a": 1}), ({"a": 1}, {"a": 5}, None, dict, lambda x, y: (True, None))],
        [({"a": 1}, {"a": 2}), ([], {}), ({}, []), ({"a": 1}, {"a": 1}, None, str)],
    ),
    (
        "assertDataclassEqual",
        [(_Point(1, "a"), _Point(1, "b"))],
        [(_Point(1), _Point(2)), (_Point(1), _Odd(1)), (_Odd(1), _Odd(1)), (1, _Point(1)), (_Point(1), _Point)],
    ),
    (
        "assertUrlEqual",
        [("http://a/b?x=1&y=2#f", "http://a/b?y=2&x=1#f"), ("/p;a;b", "/p;b;a"), ("?x=", "?x=")],
        [("http://a/b", "https://a/b"), ("?x=1", "?x=2"), ("?x=1&x=2", "?x=2&x=1"), ("/a#b", "/a#c"), ("?x=", "?")],
    ),
    (
        "assertSameStructure",
        [({"a": [1, {2}]}, {"a": (1, {2})}), (1, True), ("a", "a"), ([], ())],
        [
            ({"a": [1]}, {"a": [2]}),
            ([1], [1, 2]),
            ({"a": 1}, {"b": 1}),
            ({1}, {2}),
            (1, 1.0),
            ("a", ["a"]),
            (b"a", "a"),
        ],
    ),
    ("assertJsonEqual", [('{"a": [1]}', '{ "a":[1] }')], [('{"a": 1}', '{"a": 2}'), ("[1]", "[1, 2]")]),
    ("assertCommandSucceeds", [("echo good",), (["/bin/echo", "good"], ["^go+d$"])], [("exit 3",), ("echo a", ["b"])]),
    ("assertCommandFails", [("echo bad >&2; exit 3", ["bad"])], [("echo bad", ["bad"]), ("echo a; exit 1", ["b"])]),
]


@pytest.mark.parametrize(("name", "right", "wrong"), CASES, ids=[name for name, _, _ in CASES])
def test_the_assertion_tells_right_from_wrong(name: str, right: Any, wrong: Any) -> None:
    case = _Case()
    for arguments in right:
        getattr(case, name)(*arguments)
    for arguments in wrong:
        with pytest.raises(case.failureException):
            getattr(case, name)(*arguments)


def test_messages_say_what_differs_and_what_the_caller_said() -> None:
    case = _Case()
    with pytest.raises(AssertionError, match=r"first\['a'\]\[1\] is 2 but second\['a'\]\[1\] is 3.*: mine"):
        case.assertJsonEqual('{"a": [1, 2]}', '{"a": [1, 3]}', "mine")
    with pytest.raises(AssertionError, match=r"'a': 1 != 2\nMissing|Missing entries:\n'b': 3(.|\n)*'a': 1 != 2"):
        case.assertMappingEqual({"a": 1, "b": 3}, {"a": 2})
    with pytest.raises(AssertionError, match="x: 1 != 2"):
        case.assertDataclassEqual(_Point(1), _Point(2))
    with pytest.raises(AssertionError, match="standard : own"):
        case.fail("standard", "own")
    with pytest.raises(ValueError, match="could not decode second JSON"):
        case.assertJsonEqual("1", "{")
    with pytest.raises(ValueError, match="places not both"):
        case.assertDictAlmostEqual({}, {}, 3, None, 0.1)


def test_commands_have_an_environment_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEFT_OUT", "seen")
    case = _Case()
    case.assertCommandSucceeds("echo [$LEFT_OUT]", [r"\[\]"])
    case.assertCommandSucceeds("echo [$GIVEN]", [r"\[seen\]"], env={"GIVEN": "seen"})


def test_contexts_and_properties_are_of_the_test() -> None:
    seen: list[Any] = []

    class Case(tf.test.TestCase):
        __test__ = False

        def runTest(self) -> None:
            seen.append(self.enter_context(unittest.mock.patch.object(np, "pi", 3)))
            seen.append(np.pi)
            self.record_property("kind", "whole")
            with self.subTest(part=1):
                self.record_property("part", 1)
                seen.append(self.get_recorded_properties())
            seen.append(self.get_recorded_properties())

    result = unittest.TestResult()
    Case().run(result)
    assert result.wasSuccessful(), result
    assert seen == [3, 3, {"kind": "whole", "part": 1}, {"kind": "whole"}]
    assert np.pi > 3
