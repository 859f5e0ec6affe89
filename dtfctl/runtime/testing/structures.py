"""Assertions about mappings, data classes, classes, trees of data, URLs and shell commands."""

from __future__ import annotations

import dataclasses
import json
import numbers
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any
from urllib import parse

import numpy as np

from dtfctl.runtime.testing.sequences import SequenceAssertions

# Tells whether two values of a key are the same, and may say how they differ.
ValuesEqual = Callable[[Any, Any], tuple[bool, BaseException | None]]


class StructureAssertions(SequenceAssertions):
    """Assertions of Abseil's TestCase that compare what has parts, and say which differ."""

    def assertMappingEqual(
        self,
        a: Any,
        b: Any,
        msg: Any = None,
        mapping_type: type = Mapping,
        check_values_equality: ValuesEqual = lambda x, y: (x == y, None),
    ) -> None:
        """Assert that two mappings have the same keys, and values that are equal by a function."""
        for name, value in (("a", a), ("b", b)):
            if not isinstance(value, mapping_type):
                self.fail(f"{name} should be a {mapping_type.__name__}, found type: {type(value).__name__}", msg)
        problems = [f"Missing entries:\n{key!r}: {value!r}" for key, value in a.items() if key not in b]
        problems += [f"Unexpected, but present entries:\n{k!r}: {v!r}" for k, v in b.items() if k not in a]
        for key in [key for key in a if key in b]:
            same, error = check_values_equality(a[key], b[key])
            if not same:
                problems.append(f"differing entries:\n{key!r}: {error or f'{a[key]!r} != {b[key]!r}'}")
        if problems:
            self.fail("\n".join([f"{a!r} != {b!r}", *problems]), msg)

    def assertDictEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        """Assert that two dicts have the same keys, and values that are the same, equal arrays or close floats."""

        def same(x: Any, y: Any) -> tuple[bool, BaseException | None]:
            try:
                first, second = self._array(x), self._array(y)
                floats = np.issubdtype(first.dtype, np.floating)
                (self.assertAllClose if floats else self.assertAllEqual)(first, second)
            except AssertionError as e:
                return False, e
            return True, None

        self.assertMappingEqual(a, b, msg, dict, same)

    def assertDictContainsSubset(
        self, subset: Mapping[Any, Any], dictionary: Mapping[Any, Any], msg: Any = None
    ) -> None:
        """Assert that a mapping has all keys of another, with its values."""
        self.assertDictEqual({**dictionary}, {**dictionary, **subset}, msg)

    def assertDictAlmostEqual(
        self, a: Any, b: Any, places: int | None = None, msg: Any = None, delta: float | None = None
    ) -> None:
        """Assert that two dicts are equal, but for numbers, which are almost equal.

        Raises:
            ValueError: both places and delta are given.
        """
        if delta is not None and places is not None:
            raise ValueError("specify delta or places not both\n")

        def same(x: Any, y: Any) -> tuple[bool, BaseException | None]:
            try:
                if isinstance(x, numbers.Number) and isinstance(y, numbers.Number):
                    self.assertAlmostEqual(x, y, places, delta=delta)  # type: ignore[call-overload]
                else:
                    self.assertEqual(x, y)
            except self.failureException as e:
                return False, e
            return True, None

        self.assertMappingEqual(a, b, msg, dict, same)

    def assertDataclassEqual(self, first: Any, second: Any, msg: Any = None) -> None:
        """Assert that two instances of a data class are equal, and say which fields are not."""
        for name, value in (("First", first), ("Second", second)):
            if not dataclasses.is_dataclass(value) or isinstance(value, type):
                self.fail(f"{name} argument {value!r} is not a dataclass instance.")
        if first == second:
            return
        if type(first) is not type(second):
            self.fail(f"Found different dataclass types: {type(first)} != {type(second)}", msg)
        pairs = [
            (f.name, getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(first) if f.compare
        ]
        different = [f"{name}: {x!r} != {y!r}" for name, x, y in pairs if x != y]
        said = different or ["Cannot detect difference by examining the fields of the dataclass."]
        self.fail("\n".join([f"{first!r} != {second!r}", *said]), msg)

    def assertIsSubclass(self, cls: Any, superclass: Any, msg: Any = None) -> None:
        if not isinstance(cls, type):
            self.fail(f"{cls!r} is not a class", msg)
        if not issubclass(cls, superclass):
            self.fail(f"{cls!r} is not a subclass of {superclass!r}", msg)

    def assertNotIsSubclass(self, cls: Any, superclass: Any, msg: Any = None) -> None:
        if not isinstance(cls, type):
            self.fail(f"{cls!r} is not a class", msg)
        if issubclass(cls, superclass):
            self.fail(f"{cls!r} is a subclass of {superclass!r}", msg)

    def assertUrlEqual(self, a: str, b: str, msg: Any = None) -> None:
        """Assert that two URLs are the same, in whatever order their parameters are."""
        first, second = parse.urlparse(a), parse.urlparse(b)
        for part in ("scheme", "netloc", "path", "fragment"):
            self.assertEqual(getattr(first, part), getattr(second, part), msg)
        self.assertCountEqual(first.params.split(";"), second.params.split(";"), msg)
        asked, wanted = (parse.parse_qs(url.query, keep_blank_values=True) for url in (first, second))
        self.assertEqual(asked, wanted, msg)

    def assertSameStructure(self, a: Any, b: Any, aname: str = "a", bname: str = "b", msg: Any = None) -> None:
        """Assert that two trees of dicts, sequences and sets are the same, and say where they differ.

        Args:
            aname, bname: what the message calls them.
        """
        problems = self._differences(a, b, aname, bname)
        shown = len(problems) if self.maxDiff is None else self.maxDiff // 80
        if len(problems) > shown:
            problems = [*problems[: shown - 1], "..."]
        if problems:
            self.fail("; ".join(problems), msg)

    def _differences(self, a: Any, b: Any, aname: str, bname: str) -> list[str]:
        kinds = (int, Sequence, Set, Mapping)
        texts = isinstance(a, (str, bytes)) or isinstance(b, (str, bytes))
        alike = any(isinstance(a, k) and isinstance(b, k) and not (texts and k is Sequence) for k in kinds)
        if type(a) is not type(b) and not alike:
            return [f"{aname} is a {type(a)!r} but {bname} is a {type(b)!r}"]
        if isinstance(a, Set):
            found = [f"{aname} has {key!r} but {bname} does not" for key in a if key not in b]
            return found + [f"{aname} lacks {key!r} but {bname} has it" for key in b if key not in a]
        if isinstance(a, Mapping):
            pairs = [(key, key in a, key in b) for key in [*a, *(key for key in b if key not in a)]]
        elif isinstance(a, Sequence) and not texts:
            pairs = [(i, i < len(a), i < len(b)) for i in range(max(len(a), len(b)))]
        else:
            try:
                self.assertEqual(a, b)
            except self.failureException:
                return [f"{aname} is {a!r} but {bname} is {b!r}"]
            return []
        found = []
        for key, in_a, in_b in pairs:
            if in_a and in_b:
                found += self._differences(a[key], b[key], f"{aname}[{key!r}]", f"{bname}[{key!r}]")
            elif in_a:
                found.append(f"{aname} has [{key!r}] with value {a[key]!r} but it's missing in {bname}")
            else:
                found.append(f"{aname} lacks [{key!r}] but {bname} has it with value {b[key]!r}")
        return found

    def assertJsonEqual(self, first: str, second: str, msg: Any = None) -> None:
        """Assert that two texts are the same as JSON, and say where they differ.

        Raises:
            ValueError: one is no JSON.
        """
        values = []
        for name, text in (("first", first), ("second", second)):
            try:
                values.append(json.loads(text))
            except ValueError as e:
                raise ValueError(self._formatMessage(msg, f"could not decode {name} JSON value {text}: {e}")) from e
        self.assertSameStructure(values[0], values[1], "first", "second", msg)

    def assertRegexMatch(self, actual_str: Any, regexes: Any, message: str | None = None) -> None:
        """Assert that one of some regular expressions is found in a text; ^ and $ are the ends of its lines."""
        if isinstance(regexes, (str, bytes)):
            self.fail("regexes is string or bytes; use assertRegex instead.", message)
        wanted = [_like(regex, actual_str) for regex in regexes]
        if not any(re.search(regex, actual_str, re.MULTILINE) for regex in wanted):
            self.fail(f'"{actual_str}" does not contain any of these regexes: {regexes}.', message)

    def assertCommandSucceeds(
        self, command: Any, regexes: Any = (b"",), env: Any = None, close_fds: bool = True, msg: Any = None
    ) -> None:
        """Assert that a command, a text for the shell or a list, ends with 0 and writes what a regex is found in.

        Args:
            env: its environment: an empty one where it is None.
        """
        code, written = _run(command, env, close_fds)
        said = f"Running command\n\t{_text(command)} failed with error code {code} and message\n\t{written!r}"
        self.assertEqual(code, 0, self._formatMessage(msg, said))
        self.assertRegexMatch(written, regexes, self._formatMessage(msg, said))

    def assertCommandFails(
        self, command: Any, regexes: Any, env: Any = None, close_fds: bool = True, msg: Any = None
    ) -> None:
        """Assert that a command, a text for the shell or a list, does not end with 0, and writes what a regex is found
        in.

        Args:
            env: its environment: an empty one where it is None.
        """
        code, written = _run(command, env, close_fds)
        said = f"The following command succeeded while expected to fail:\n\t{_text(command)}"
        self.assertNotEqual(code, 0, self._formatMessage(msg, said))
        self.assertRegexMatch(written, regexes, msg)


def _like(regex: Any, text: Any) -> Any:
    """Make a regular expression of the kind of the text that it is searched in."""
    if isinstance(text, bytes) and isinstance(regex, str):
        return regex.encode()
    return regex.decode() if isinstance(text, str) and isinstance(regex, bytes) else regex


def _text(command: Any) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _run(command: Any, env: Any, close_fds: bool) -> tuple[int, bytes]:
    """Run a command; a text is what the shell reads. Returns its exit code and all that it wrote."""
    shell = isinstance(command, str)
    done = subprocess.run(
        ["/bin/sh"] if shell else command,
        input=command.encode() if shell else None,
        env={} if env is None else env,
        close_fds=close_fds,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout
