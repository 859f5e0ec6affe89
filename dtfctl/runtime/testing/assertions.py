"""Assertions about errors, and files, threads and properties of tests, that programs know from TensorFlow's
TestCase."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from dtfctl import guard
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.testing.structures import StructureAssertions


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


class Assertions(StructureAssertions):
    """Assertions that need no session."""

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._properties: dict[str | None, dict[str, Any]] = {}

    def get_temp_dir(self) -> str:
        raise NotImplementedError

    def enter_context(self, manager: contextlib.AbstractContextManager[Any]) -> Any:
        """Enter a context that is left at the end of the test; returns its value."""
        return self.enterContext(manager)

    def record_property(self, property_name: str, property_value: Any) -> None:
        """Note something of the test, or of the subtest that runs."""
        self._properties.setdefault(self._running(), {})[property_name] = property_value

    def get_recorded_properties(self, subtest: Any = None) -> dict[str, Any]:
        """Return what was noted of a subtest, or of the test and the subtest that runs."""
        if subtest is not None:
            return dict(self._properties.get(subtest.id(), {}))
        return {**self._properties.get(None, {}), **self._properties.get(self._running(), {})}

    def _running(self) -> str | None:
        subtest: Any = getattr(self, "_subtest", None)
        return None if subtest is None else str(subtest.id())

    def assertBetween(self, value: Any, minv: Any, maxv: Any, msg: str | None = None) -> None:
        """Assert that minv <= value <= maxv."""
        said = self._formatMessage(msg, f'"{value!r}" unexpectedly not between "{minv!r}" and "{maxv!r}"')
        self.assertLessEqual(minv, value, said)
        self.assertGreaterEqual(maxv, value, said)

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
