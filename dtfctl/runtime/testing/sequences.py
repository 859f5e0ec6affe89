"""Assertions about text and sequences: how they begin and end, what they contain in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from typing import Any, NoReturn

from dtfctl.runtime.testing.arrays import ArrayAssertions


class SequenceAssertions(ArrayAssertions):
    """Assertions of Abseil's TestCase that need nothing but the values."""

    def fail(self, msg: Any = None, user_msg: Any = None) -> NoReturn:
        """Fail at once, with a message and one of the caller's."""
        super().fail(self._formatMessage(user_msg, msg))

    def assertLen(self, container: Sized, expected_len: int, msg: str | None = None) -> None:
        self.assertEqual(len(container), expected_len, msg or f"{container!r} has {len(container)} items")

    def assertEmpty(self, container: Sized, msg: str | None = None) -> None:
        self.assertFalse(len(container), msg or f"{container!r} is not empty")

    def assertNotEmpty(self, container: Sized, msg: str | None = None) -> None:
        self.assertTrue(len(container), msg or f"{container!r} is empty")

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        if not actual.startswith(expected_start):
            self.fail(f"{actual!r} does not start with {expected_start!r}", msg)

    def assertNotStartsWith(self, actual: str, unexpected_start: str, msg: str | None = None) -> None:
        if actual.startswith(unexpected_start):
            self.fail(f"{actual!r} does start with {unexpected_start!r}", msg)

    def assertEndsWith(self, actual: str, expected_end: str, msg: str | None = None) -> None:
        if not actual.endswith(expected_end):
            self.fail(f"{actual!r} does not end with {expected_end!r}", msg)

    def assertNotEndsWith(self, actual: str, unexpected_end: str, msg: str | None = None) -> None:
        if actual.endswith(unexpected_end):
            self.fail(f"{actual!r} does end with {unexpected_end!r}", msg)

    def assertSequenceStartsWith(self, prefix: Any, whole: Any, msg: str | None = None) -> None:
        """Assert that a sequence begins with the items of another, or with one item; an empty one begins only such."""
        wanted = prefix if isinstance(prefix, Sized) else [prefix]
        if isinstance(whole, (Mapping, Set)) or not isinstance(whole, Sized):
            self.fail(f"For whole: a sequence is needed, found type: {type(whole)}", msg)
        if len(wanted) > len(whole):
            self.fail(f"Prefix length ({len(wanted)}) is longer than whole length ({len(whole)}).", msg)
        if not len(wanted) and len(whole):
            self.fail(f"Prefix length is 0 but whole length is {len(whole)}: {whole}", msg)
        try:
            self.assertSequenceEqual(wanted, whole[: len(wanted)])  # type: ignore[index, arg-type]
        except self.failureException:
            self.fail(f"prefix: {wanted} not found at start of whole: {whole}.", msg)

    def assertItemsEqual(self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: str | None = None) -> None:
        """Assert that two containers have the same items as often, in whatever order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertSameElements(self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None) -> None:
        """Assert that two containers have the same items, however often and in whatever order; they are no text."""
        if isinstance(expected_seq, (str, bytes)) or isinstance(actual_seq, (str, bytes)):
            self.fail("Passing string/bytes to assertSameElements is usually a bug. Did you mean to use assertEqual?")
        expected, actual = list(expected_seq), list(actual_seq)
        missing = [item for item in expected if item not in actual]
        unexpected = [item for item in actual if item not in expected]
        if missing or unexpected:
            self.fail(f"Expected, but missing: {missing!r}\nUnexpected, but present: {unexpected!r}", msg)

    def assertContainsSubset(self, expected_subset: Iterable[Any], actual_set: Iterable[Any], msg: Any = None) -> None:
        missing = set(expected_subset) - set(actual_set)
        self.assertFalse(missing, msg or f"{missing} are missing in {actual_set}")

    def assertNoCommonElements(self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None) -> None:
        common = set(expected_seq) & set(actual_seq)
        if common:
            self.fail(f"Common elements {common}\nExpected: {expected_seq}\nActual: {actual_seq}", msg)

    def assertContainsInOrder(self, strings: str | bytes | Iterable[Any], target: str, msg: Any = None) -> None:
        """Assert that texts are found in another, each from where the one before it was found."""
        at, last = 0, None
        for text in (strings,) if isinstance(strings, (str, bytes)) else strings:
            found = target.find(str(text), at)
            if found < 0:
                after = "" if last is None else f" after {last!r}"
                self.fail(f"Did not find {text!r}{after} in {target!r}", msg)
            at, last = found, text

    def assertContainsSubsequence(self, container: Iterable[Any], subsequence: Iterable[Any], msg: Any = None) -> None:
        """Assert that the items of a sequence are in another in their order, with others between them or not."""
        rest = iter(container)
        for item in subsequence:
            if not any(item == other for other in rest):
                self.fail(f"{subsequence} not a subsequence of {container}. First non-matching element: {item}", msg)

    def assertContainsExactSubsequence(
        self, container: Iterable[Any], subsequence: Iterable[Any], msg: Any = None
    ) -> None:
        """Assert that the items of a sequence are in another in their order, with none between them."""
        items, wanted = list(container), list(subsequence)
        longest = 0
        for start in range(1 + len(items) - len(wanted)):
            same = next((i for i, item in enumerate(wanted) if item != items[start + i]), len(wanted))
            longest = max(longest, same)
        if longest < len(wanted):
            self.fail(f"{wanted} not an exact subsequence of {items}. Longest matching prefix: {wanted[:longest]}", msg)

    def assertTotallyOrdered(self, *groups: Iterable[Any], **kwargs: Any) -> None:
        """Assert that items are in an order: equal within a group, with one hash, and less than those of later ones."""
        items = [list(group) for group in groups]
        for i, group in enumerate(items):
            for a in group:
                for j, other in enumerate(items):
                    for b in other:
                        found = (a < b, a == b, a > b, a <= b, a >= b, a != b)
                        self.assertEqual(found, (i < j, i == j, i > j, i <= j, i >= j, i != j), kwargs.get("msg"))
                        if i == j:
                            self.assertEqual(hash(a), hash(b), kwargs.get("msg"))

    def assertSequenceAlmostEqual(
        self,
        expected_seq: Sequence[float],
        actual_seq: Sequence[float],
        places: int | None = None,
        msg: str | None = None,
        delta: float | None = None,
    ) -> None:
        self.assertEqual(len(expected_seq), len(actual_seq), msg)
        for a, b in zip(expected_seq, actual_seq):
            self.assertAlmostEqual(a, b, places, msg, delta)  # type: ignore[arg-type]
