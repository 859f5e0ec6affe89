"""Assertions about arrays and structures of them."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.nest import is_nested
from dtfctl.runtime.framework.tensor_util import is_tensor
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import is_ragged
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue


class ArrayAssertions(unittest.TestCase):
    """Each takes arrays, numbers, nested sequences, and tensors (evaluated in the test's session)."""

    def evaluate(self, tensors: Any) -> Any:
        """Evaluate tensors."""
        raise NotImplementedError

    def _array(self, value: Any) -> np.ndarray[Any, Any]:
        if is_tensor(value):
            value = self.evaluate(value)
        elif isinstance(value, (list, tuple)):
            value = [self.evaluate(v) if is_tensor(v) else v for v in value]
        return np.asarray(value)

    def _listed(self, value: Any) -> Any:
        """Make nested lists of a value that may be ragged."""
        if is_tensor(value):
            value = self.evaluate(value)
        if isinstance(value, (list, tuple)):
            return [self._listed(v) for v in value]
        if isinstance(value, RaggedTensorValue):
            return [self._listed(v) for v in value.to_list()]
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    def _close_lists(self, a: Any, b: Any, rtol: float, atol: float, msg: str | None, path: str) -> None:
        if isinstance(a, list) or isinstance(b, list):
            self.assertIsInstance(a, list, f"Mismatched nesting at {path}. {msg or ''}")
            self.assertIsInstance(b, list, f"Mismatched nesting at {path}. {msg or ''}")
            self.assertEqual(len(a), len(b), f"Mismatched length at {path}. {msg or ''}")
            for i, (x, y) in enumerate(zip(a, b)):
                self._close_lists(x, y, rtol, atol, msg, f"{path}[{i}]")
        elif isinstance(a, (str, bytes)) or isinstance(b, (str, bytes)):
            self.assertEqual(_as_bytes(a), _as_bytes(b), f"Mismatched value at {path}. {msg or ''}")
        else:
            np.testing.assert_allclose(b, a, rtol, atol, err_msg=f"Mismatched value at {path}. {msg or ''}")

    def _close(self, a: Any, b: Any, rtol: float, atol: float, msg: str | None, path: str) -> None:
        if hasattr(a, "_asdict"):
            a = a._asdict()
        if hasattr(b, "_asdict"):
            b = b._asdict()
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            self.assertEqual(set(a), set(b), f"Mismatched keys at {path}. {msg or ''}")
            for key in a:
                self._close(a[key], b[key], rtol, atol, msg, f"{path}[{key!r}]")
            return
        if is_ragged(a) or is_ragged(b):
            self._close_lists(self._listed(a), self._listed(b), rtol, atol, msg, path)
            return
        if _is_ragged(a) or _is_ragged(b):
            self.assertEqual(len(a), len(b), f"Mismatched length at {path}. {msg or ''}")
            for i, (x, y) in enumerate(zip(a, b)):
                self._close(x, y, rtol, atol, msg, f"{path}[{i}]")
            return
        x, y = self._array(a), self._array(b)
        self.assertEqual(x.shape, y.shape, f"Shape mismatch at {path}: expected {x.shape}, got {y.shape}. {msg or ''}")
        if np.ndim(rtol) or np.ndim(atol):  # for each element its own, which the next function cannot write
            close = np.isclose(_wide(y), _wide(x), rtol, atol)
            self.assertTrue(close.all(), f"Mismatched value at {path}: {y} and {x}. {msg or ''}")
            return
        np.testing.assert_allclose(_wide(y), _wide(x), rtol, atol, err_msg=f"Mismatched value at {path}. {msg or ''}")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Structures of one form whose arrays differ by at most atol + rtol * |expected| in each element."""
        self._close(a, b, rtol, atol, msg, "a")

    def assertNotAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Assert that some element differs by more."""
        try:
            self.assertAllClose(a, b, rtol, atol, msg)
        except AssertionError:
            return
        self.fail(msg or "The two values are close at all elements")

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """`assertAllClose` with the tolerance of the less precise type of the two."""
        a, b = self._array(a), self._array(b)
        kinds = {a.dtype.name, b.dtype.name}
        for names, r, t in (
            (("float32", "complex64"), float_rtol, float_atol),
            (("float16",), half_rtol, half_atol),
            (("bfloat16",), bfloat16_rtol, bfloat16_atol),
        ):
            if kinds & set(names):
                rtol, atol = max(rtol, r), max(atol, t)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Arrays of one shape with equal elements; NaN equals NaN."""
        if is_ragged(a) or is_ragged(b):
            self._close_lists(self._listed(a), self._listed(b), 0, 0, msg, "a")
            return
        x, y = self._array(a), self._array(b)
        self.assertEqual(x.shape, y.shape, f"Shape mismatch: expected {x.shape}, got {y.shape}. {msg or ''}")
        np.testing.assert_array_equal(_text(y), _text(x), err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Assert that some element differs."""
        try:
            self.assertAllEqual(a, b, msg)
        except AssertionError:
            return
        self.fail(msg or "The two values are equal at all elements")

    def _each(self, a: Any, holds: Any, what: str) -> None:
        array = self._array(a)
        wrong = array[~np.asarray(holds(array), bool)]
        self.assertEqual(wrong.size, 0, f"{wrong.size} elements are not {what}, the first is {wrong[:1]}")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        self._each(a, lambda x: x > comparison_target, f"greater than {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        self._each(a, lambda x: x < comparison_target, f"less than {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        self._each(a, lambda x: x >= comparison_target, f"at least {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        self._each(a, lambda x: x <= comparison_target, f"at most {comparison_target}")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Assert that every element lies between the bounds, which belong to the range unless they are open."""

        def inside(x: Any) -> Any:
            above = x > lower_bound if open_lower_bound else x >= lower_bound
            return above & (x < upper_bound if open_upper_bound else x <= upper_bound)

        self._each(target, inside, f"between {lower_bound} and {upper_bound}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Assert that every element is one of a set."""
        self._each(target, lambda x: np.isin(x, list(expected_set)), f"in {expected_set}")

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Assert an array's element type."""
        self.assertEqual(as_dtype(self._array(target).dtype), as_dtype(expected_dtype))

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Assert that two numbers are equal or differ by at most `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r} {msg or ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Flat sequences of one length that differ by at most `err` in each element."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for a, b in zip(farray1, farray2):
            self.assertNear(float(a), float(b), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """Arrays whose difference has a norm of less than `err`."""
        self.assertLess(float(np.linalg.norm(np.asarray(ndarray1) - np.asarray(ndarray2))), err, msg)

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Arrays or tensors of one static shape."""

        def dims(value: Any) -> list[Any]:
            if not is_tensor(value):
                return list(np.shape(value))
            return [None] if value.shape.rank is None else value.shape.as_list()

        self.assertEqual(dims(input_a), dims(input_b), msg)


def _is_ragged(value: Any) -> bool:
    """Tell whether a sequence has structures in it that are no single array."""
    if not isinstance(value, (list, tuple)):
        return False
    if any(is_nested(v) and (isinstance(v, Mapping) or hasattr(v, "_asdict")) for v in value):
        return True
    shapes = {np.shape(v) for v in value if not is_tensor(v) and not _is_ragged(v)}
    return len(shapes) > 1 or any(_is_ragged(v) for v in value)


def _as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind in "iub":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Strings as bytes, so that b"a" equals "a"."""
    if array.dtype.kind not in "OSU":
        return array
    out = np.empty(array.size, object)
    out[:] = [v.encode() if isinstance(v, str) else v for v in array.reshape(-1).tolist()]
    return out.reshape(array.shape)
