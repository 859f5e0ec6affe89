"""Assertions about containers, text, dicts and errors that programs' tests know from TensorFlow's TestCase."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, TextIO

from dtfctl import guard
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.testing.arrays import ArrayAssertions


class CapturedWrites:
    """What was written to a stream in a block."""

    def __init__(self, path: str) -> None:
        self._path = path

    def contents(self) -> str:
        with open(self._path, encoding="utf-8", errors="replace") as file:
            return file.read()


class Checked:
    """A thread whose error is raised where it is joined."""

    def __init__(self, target: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._error: BaseException | None = None

        def run() -> None:
            try:
                target(*args, **kwargs)
            except BaseException as e:
                self._error = e

        self._thread = guard.once(run, name="checked", daemon=False)

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread's end.

        Raises:
            AssertionError: it ended with an error.
        """
        self._thread.join()
        if self._error is not None:
            raise AssertionError(f"Error in checkedThread: {self._error}") from self._error

    def check_termination(self) -> None:
        """AssertionError unless the thread has ended without an error."""
        if self.is_alive():
            raise AssertionError("checkedThread was not terminated")
        self.join()


class Assertions(ArrayAssertions):
    """Assertions that need no session."""

    def get_temp_dir(self) -> str:
        raise NotImplementedError

    def assertLen(self, container: Sized, expected_len: int, msg: str | None = None) -> None:
        self.assertEqual(len(container), expected_len, msg or f"{container!r} has {len(container)} items")

    def assertEmpty(self, container: Sized, msg: str | None = None) -> None:
        self.assertFalse(len(container), msg or f"{container!r} is not empty")

    def assertNotEmpty(self, container: Sized, msg: str | None = None) -> None:
        self.assertTrue(len(container), msg or f"{container!r} is empty")

    def assertItemsEqual(self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: str | None = None) -> None:
        """Assert that two containers have the same items as often, in whatever order."""
        self.assertCountEqual(expected_seq, actual_seq, msg)

    def assertSameElements(self, expected_seq: Iterable[Any], actual_seq: Iterable[Any], msg: Any = None) -> None:
        """Assert that two containers have the same items, however often and in whatever order."""
        self.assertEqual(set(expected_seq), set(actual_seq), msg)

    def assertContainsSubset(self, expected_subset: Iterable[Any], actual_set: Iterable[Any], msg: Any = None) -> None:
        missing = set(expected_subset) - set(actual_set)
        self.assertFalse(missing, msg or f"{missing} are missing in {actual_set}")

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: str | None = None) -> None:
        """Assert that minv <= value <= maxv."""
        self.assertTrue(minv <= value <= maxv, msg or f"{value} is not within [{minv}, {maxv}]")

    def assertEndsWith(self, actual: str, expected_end: str, msg: str | None = None) -> None:
        self.assertTrue(actual.endswith(expected_end), msg or f"{actual!r} does not end with {expected_end!r}")

    def assertRegexMatch(self, actual_str: str, regexes: Sequence[str], message: str | None = None) -> None:
        """Assert that one of some regular expressions is found in a text."""
        found = any(re.search(regex, actual_str) for regex in regexes)
        self.assertTrue(found, message or f"none of {regexes!r} is found in {actual_str!r}")

    def assertTotallyOrdered(self, *groups: Iterable[Any], **kwargs: Any) -> None:
        """Assert that items are in an order: equal within a group, less than those of later groups."""
        for i, group in enumerate(groups):
            for a in group:
                for j, other in enumerate(groups):
                    for b in other:
                        self.assertEqual((a < b, a == b, a > b), (i < j, i == j, i > j), kwargs.get("msg"))

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

    def assertDictEqual(self, a: Mapping[Any, Any], b: Mapping[Any, Any], msg: Any = None) -> None:
        """Assert that two dicts have the same keys, and values that are the same or equal arrays."""
        self.assertIsInstance(a, dict)
        self.assertIsInstance(b, dict)
        self.assertEqual(sorted(map(repr, a)), sorted(map(repr, b)), msg)
        for key, value in a.items():
            self.assertAllEqual(value, b[key], f"{msg or ''} under {key!r}")

    def assertRaisesWithLiteralMatch(
        self, expected_exception: Any, expected_exception_message: str, *call: Any, **kwargs: Any
    ) -> Any:
        """Assert that an error is raised whose text is exactly this one: in a block, or of a callable."""
        return self.assertRaisesRegex(expected_exception, f"^{re.escape(expected_exception_message)}$", *call, **kwargs)

    def assertRaisesIncompatibleShapesError(
        self, exception_type: Any = InvalidArgumentError, dim0: Any = None, dim1: Any = None
    ) -> Any:
        """Assert in a block that an error says that shapes do not fit."""
        return self.assertRaisesRegex(exception_type, r"[Ii]ncompatible shapes|must be equal|must match")

    def create_tempfile(
        self,
        file_path: str | None = None,
        content: str | bytes | None = None,
        mode: str = "w",
        encoding: str = "utf8",
        errors: str = "strict",
        cleanup: Any = None,
    ) -> _TempFile:
        """Make a file in the test's folder, which is deleted with it, with this content."""
        path = (
            os.path.join(self.get_temp_dir(), file_path) if file_path else tempfile.mkstemp(dir=self.get_temp_dir())[1]
        )
        os.makedirs(os.path.dirname(path), exist_ok=True)
        binary = isinstance(content, bytes) or "b" in mode
        how: dict[str, Any] = {} if binary else {"encoding": encoding, "errors": errors}
        with open(path, "wb" if isinstance(content, bytes) else mode, **how) as file:
            file.write(content or ("" if "b" not in mode else b""))
        return _TempFile(path)

    def create_tempdir(self, name: str | None = None, cleanup: Any = None) -> _TempFile:
        """Make a folder in the test's folder."""
        path = os.path.join(self.get_temp_dir(), name) if name else tempfile.mkdtemp(dir=self.get_temp_dir())
        os.makedirs(path, exist_ok=True)
        return _TempFile(path)

    def checkedThread(self, target: Callable[..., Any], args: Any = None, kwargs: Any = None) -> Checked:
        """Make a thread whose error `join` raises."""
        return Checked(target, args or (), kwargs or {})

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: TextIO) -> Iterator[CapturedWrites]:
        """Keep what is written to a stream's file descriptor in a block, and write none of it there.

        Raises:
            ValueError: the stream has no file descriptor.
        """
        try:
            descriptor = stream.fileno()
        except OSError as e:
            raise ValueError("captureWritesToStream needs a stream of a file, such as sys.stderr") from e
        sys.stdout.flush()
        sys.stderr.flush()
        kept, path = tempfile.mkstemp(dir=self.get_temp_dir())
        saved = os.dup(descriptor)
        try:
            os.dup2(kept, descriptor)
            yield CapturedWrites(path)
        finally:
            stream.flush()
            os.dup2(saved, descriptor)
            os.close(saved)
            os.close(kept)


class _TempFile(os.PathLike[str]):
    """A file or folder of a test.

    Attributes:
        full_path: where it is.
    """

    def __init__(self, full_path: str) -> None:
        self.full_path = full_path

    def __fspath__(self) -> str:
        return self.full_path

    def read_text(self) -> str:
        with open(self.full_path, encoding="utf-8") as file:
            return file.read()

    def read_bytes(self) -> bytes:
        with open(self.full_path, "rb") as file:
            return file.read()

    def write_text(self, text: str) -> None:
        with open(self.full_path, "w", encoding="utf-8") as file:
            file.write(text)
