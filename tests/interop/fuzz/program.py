"""One TF1 program made at random: the same for the same number, with any front end.

What a program is depends on its number and on shapes reckoned here, with NumPy, never on what a front end says.
Everything it makes is an *item*: what was called, and the name, type and static shape that came of it, or the kind of
error. Items of a name scope of their own do not depend on what helpers other items made.
"""

from __future__ import annotations

import builtins
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS, INTS = ("float32", "float64"), ("int32", "int64")
DIGITS = {"float64": 10, "float32": 6, "complex64": 6, "float16": 3}


class Skip(Exception):
    """Leave this choice: it would not be well defined."""


@dataclass(frozen=True)
class Value:
    """A tensor whose shape in a step is known here."""

    tensor: Any
    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def zeros(self) -> np.ndarray[Any, Any]:
        return np.zeros(self.shape, self.dtype)


@dataclass
class Item:
    """What one call came to."""

    what: str
    tensors: list[Any]
    error: str = ""
    pure: bool = True
    """Whether it gives the same in each step, and may be fetched with others."""


@dataclass
class Program:
    """A graph that grows, and what is known of it."""

    tf: Any
    rng: random.Random
    values: list[Value] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    feeds: dict[Any, Any] = field(default_factory=dict)
    sources: list[Value] = field(default_factory=list)
    depth: int = 0
    made: int = 0

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        """Numbers that look random and are never near each other, or near zero."""
        self.made += 1
        n = int(np.prod(shape))
        waves = np.sin(np.arange(1, n + 1) * (0.7 + 0.13 * self.made) + self.made) * 1.7 + 0.013
        if dtype == "bool":
            return np.asarray(waves > 0).reshape(shape)
        if dtype in INTS:
            return np.asarray(np.floor(waves * 4)).astype(dtype).reshape(shape)
        return np.asarray(waves).astype(dtype).reshape(shape)

    def constant(self, shape: tuple[int, ...], dtype: str = "float32") -> Value:
        return Value(self.tf.constant(self.array(shape, dtype), dtype), shape, dtype)

    def pick(self, dtypes: tuple[str, ...] = ("float32",), least: int = 0, most: int = 4, size: int = 240) -> Value:
        """One of what there is, or a constant."""
        fit = [v for v in self.values if v.dtype in dtypes and least <= v.rank <= most and v.zeros.size <= size]
        if fit and self.rng.random() < 0.93:
            # What was made last is used more.
            return fit[max(self.rng.randrange(len(fit)), self.rng.randrange(len(fit)))]
        return self.constant(self.shape(least, min(most, 3)), self.rng.choice(dtypes))

    def shape(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        return tuple(self.rng.choice([1, 2, 3, 4]) for _ in range(self.rng.randint(least, most)))

    def axis(self, value: Value) -> int:
        """Of a value of rank 1 or more, counted from either end."""
        axis = self.rng.randrange(value.rank)
        return axis - value.rank if self.rng.random() < 0.4 else axis

    def some(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def calm(self, tensor: Any) -> Any:
        """The same between -3 and 3."""
        return self.tf.clip_by_value(tensor, -3.0, 3.0)

    def off(self, value: Value) -> Any:
        """The same with other fractions: ties, and what lies on a step of a function, lie there no more."""
        n = max(int(np.prod(value.shape)), 1)
        ramp = (np.arange(n) * 0.0173 + 0.00137).reshape(value.shape).astype(value.dtype)
        return value.tensor + self.tf.constant(ramp)

    def keep(self, what: str, tensor: Any, shape: tuple[int, ...], dtype: str) -> None:
        """Add a value that others may be made of."""
        value = Value(tensor, tuple(int(n) for n in shape), dtype)
        self.items.append(Item(what, [tensor]))
        if int(np.prod(value.shape)) <= 400 and value.rank <= 5:
            self.values.append(value)

    def note(self, what: str, *tensors: Any) -> None:
        """Add tensors that are compared and not used."""
        self.items.append(Item(what, list(tensors)))

    def attempt(self, what: str, make: Callable[[], Any]) -> Any:
        """Make what may well be wrong: its kind of error is compared, or what it gives."""
        try:
            made = make()
        except Skip:
            raise
        except Exception as e:
            self.items.append(Item(what, [], error_kind(self.tf, e)))
            return None
        self.items.append(Item(what, list(made) if isinstance(made, (list, tuple)) else [made]))
        return made

    def grow(self, makers: list[Callable[[Program], None]]) -> None:
        """Make one more item."""
        make = self.rng.choice(makers)
        scope = f"s{len(self.items)}" if self.rng.random() < 0.8 else self.some("one", "two")
        before = len(self.items)
        with self.tf.name_scope(scope), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                make(self)
            except Skip:
                return
            except Exception as e:
                if len(self.items) == before:
                    self.items.append(Item(make.__name__, [], error_kind(self.tf, e) + ": " + str(e)[:160]))
                else:
                    raise


def error_kind(tf: Any, error: BaseException) -> str:
    """TensorFlow's name of an error of its own, or the nearest of Python's."""
    if isinstance(error, tf.errors.OpError):
        return type(error).__name__
    return next(c.__name__ for c in type(error).__mro__ if getattr(builtins, c.__name__, None) is c)
